"""Walking to a path without leaving the roots, whatever is in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_tools.toolkits.file_errors import MissingFileError, NotAFolderError, OutsideRootsError
from dsh_tools.toolkits.places import locate
from dsh_tools.toolkits.workspace import Root

DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root beside a folder with a secret, with links of every kind between them."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "a" / "b", outside / "deep"):
        folder.mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    (outside / "secret").write_text("secret")
    (outside / "deep" / "file").write_text("secret")
    (root / "to-folder").symlink_to("a/b")
    (root / "to-file").symlink_to("a/file")
    (root / "absolute").symlink_to(root / "a")
    (root / "out").symlink_to(outside)
    (root / "out-relative").symlink_to("../outside")
    (root / "out-file").symlink_to("../outside/secret")
    (root / "a" / "up").symlink_to("../..")
    (root / "loop").symlink_to("loop")
    (root / "chain").symlink_to("absolute/up/root/a/file")
    return root


def roots_of(tree: Path) -> list[Root]:
    return [Root(str(tree), str(tree))]


def content(tree: Path, path: str, **options: bool) -> str:
    with locate(roots_of(tree), str(tree), path, **options) as place:
        fd = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=place.fd)
        with os.fdopen(fd) as file:
            return file.read()


@pytest.mark.parametrize(
    "path",
    [
        "a/file",
        "./a//./file",
        "a/b/../file",
        "to-folder/../file",
        "to-file",
        "absolute/file",
        "chain",
        "../root/a/file",
        "a/up/root/a/file",
    ],
)
def test_paths_that_stay_inside_are_found(tree: Path, path: str):
    assert content(tree, path) == "inside"
    assert content(tree, f"{tree}/{path}") == "inside"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "a/../../outside/secret",
        "a/b/../../../outside/secret",
        "out/secret",
        "out-relative/secret",
        "out-file",
        "out/deep/file",
        "a/up/outside/secret",
        "absolute/up/outside/secret",
        "to-folder/../../../outside/secret",
        "/etc/passwd",
        "..",
        "../",
        "out",
        "a/up",
        "loop",
        "loop/file",
        "../root2/file",
    ],
)
def test_paths_that_lead_out_are_refused(tree: Path, path: str):
    (tree.parent / "root2").mkdir(exist_ok=True)
    before = len(list(DESCRIPTORS.iterdir()))
    with pytest.raises(OutsideRootsError) as refused:
        locate(roots_of(tree), str(tree), path)
    assert refused.value.code == "FS_SANDBOX_DENIED"
    assert len(list(DESCRIPTORS.iterdir())) == before


def test_the_root_itself_is_a_place(tree: Path):
    for path in (".", "", "a/..", str(tree), f"{tree}/"):
        if path == "":
            with pytest.raises(MissingFileError):
                locate(roots_of(tree), str(tree), path)
            continue
        with locate(roots_of(tree), str(tree), path) as place:
            assert (place.real, place.name, place.shown) == (str(tree), ".", ".")


def test_both_spellings_of_a_root_are_understood(tree: Path):
    link = tree.parent / "link"
    link.symlink_to(tree)
    root = Root(str(tree), str(link))
    for path in (f"{link}/a/file", f"{tree}/a/file", "a/file"):
        with locate([root], str(tree), path) as place:
            assert (place.real, place.shown) == (f"{tree}/a/file", "a/file")


def test_links_between_roots_are_followed_and_shown_whole(tree: Path):
    outside = tree.parent / "outside"
    roots = [*roots_of(tree), Root(str(outside), str(outside), writable=False)]
    with locate(roots, str(tree), "out/secret") as place:
        assert place.shown == f"{outside}/secret"
        with pytest.raises(OutsideRootsError, match="only be read"):
            place.require_writable()
    with pytest.raises(OutsideRootsError, match="only be read"):
        locate(roots, str(tree), "out/new/file", make_folders=True)
    assert not (outside / "new").exists()


def test_a_link_can_be_a_place_of_its_own(tree: Path):
    with locate(roots_of(tree), str(tree), "out-file", follow=False) as place:
        found = place.status()
        assert found is not None
        assert os.readlink(place.name, dir_fd=place.fd) == "../outside/secret"


def test_missing_folders_and_files_on_the_way(tree: Path):
    with pytest.raises(MissingFileError, match="the folder x does not exist"):
        locate(roots_of(tree), str(tree), "x/y")
    with pytest.raises(NotAFolderError) as refused:
        locate(roots_of(tree), str(tree), "a/file/x")
    assert refused.value.code == "FS_NOT_DIRECTORY"
    with pytest.raises(MissingFileError, match="NUL"):
        locate(roots_of(tree), str(tree), "a\0b")
    with pytest.raises(MissingFileError, match="cannot be a file name"):
        locate(roots_of(tree), str(tree), "x" * 300 + "/y")


def test_folders_are_made_inside_only(tree: Path):
    with locate(roots_of(tree), str(tree), "new/deep/file", make_folders=True) as place:
        assert place.real == f"{tree}/new/deep/file"
    assert (tree / "new" / "deep").is_dir()
    for path in ("out/new/file", "a/up/new/file", "../new/file"):
        with pytest.raises(OutsideRootsError):
            locate(roots_of(tree), str(tree), path, make_folders=True)
    assert sorted(p.name for p in tree.parent.iterdir()) == ["outside", "root"]


PARTS = st.sampled_from(
    ["a", "b", "..", ".", "", "file", "to-folder", "to-file", "absolute", "out", "out-relative", "up", "loop", "chain"]
)


@given(st.lists(PARTS, min_size=1, max_size=8), st.booleans())
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_at_all_leads_out(tree: Path, parts: list[str], absolute: bool):
    path = "/".join(parts)
    try:
        place = locate(roots_of(tree), str(tree), f"{tree}/{path}" if absolute else path or ".")
    except (OutsideRootsError, MissingFileError, NotAFolderError):
        return
    with place:
        where = os.path.realpath(f"/proc/self/fd/{place.fd}")
        assert where == str(tree) or where.startswith(f"{tree}/")
        # What is found is what the system would find by itself.
        if os.path.exists(tree / path) and not absolute:
            assert os.path.realpath(tree / path) == os.path.realpath(place.real)


def test_a_folder_that_is_swapped_for_a_link_meanwhile_does_not_lead_out(tree: Path):
    # The attack on every "check, then open": the checked folder becomes a link in between.
    outside = tree.parent / "outside"
    victim, away = tree / "swap", tree / "away"
    victim.mkdir()
    (victim / "secret").write_text("inside")
    swap = (
        "import os, random, sys, time\n"
        "victim, away, outside = sys.argv[1:]\n"
        "print(flush=True)\n"
        "while True:\n"
        "    os.rename(victim, away); os.symlink(outside, victim)\n"
        "    if random.random() < 0.1: time.sleep(0.0001)\n"
        "    os.unlink(victim); os.rename(away, victim)\n"
        "    if random.random() < 0.1: time.sleep(0.0001)\n"
    )
    seen: set[str] = set()
    with subprocess.Popen([sys.executable, "-c", swap, victim, away, outside], stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            for _ in range(10_000):
                try:
                    seen.add(content(tree, "swap/secret"))
                except (OutsideRootsError, MissingFileError, NotAFolderError, FileNotFoundError) as error:
                    seen.add(type(error).__name__)
        finally:
            swapper.kill()
    assert "secret" not in seen
    assert {"inside", "OutsideRootsError"} <= seen
