// A long list of which only the part in sight is in the document. Heights are guessed until they are measured.

const AHEAD = 500;

export class VirtualList {
  /**
   * @param scroller the element that scrolls
   * @param draw item -> element
   * @param guess item -> height in pixels, before it is measured
   */
  constructor(scroller, draw, guess) {
    this.scroller = scroller;
    this.draw = draw;
    this.guess = guess;
    this.items = [];
    this.heights = new Map();
    this.offsets = [0];
    this.nodes = new Map();
    this.follow = false;
    this.lastTop = 0;
    this.feed = document.createElement("div");
    this.feed.className = "feed";
    this.feed.setAttribute("role", "feed");
    this.feed.setAttribute("aria-label", "Session");
    this.before = document.createElement("div");
    this.after = document.createElement("div");
    scroller.append(this.before, this.feed, this.after);
    this.pending = false;
    this.sizes = new ResizeObserver(() => this.schedule());
    this.onScroll = () => {
      // The list grows between a scroll and its event, so being away from the end says nothing by itself:
      // only going up does.
      const top = this.scroller.scrollTop;
      if (top + this.scroller.clientHeight >= this.scroller.scrollHeight - 40) this.follow = true;
      else if (top < this.lastTop - 1) this.follow = false;
      this.lastTop = top;
      this.schedule();
    };
    scroller.addEventListener("scroll", this.onScroll, { passive: true });
    this.feed.addEventListener("keydown", (event) => this.onKey(event));
    this.sizes.observe(scroller);
  }

  destroy() {
    this.sizes.disconnect();
    this.scroller.removeEventListener("scroll", this.onScroll);
  }

  set(items) {
    this.items = items;
    this.schedule();
  }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.update();
    });
  }

  height(item) {
    return this.heights.get(item.key) ?? this.guess(item);
  }

  layout() {
    const { items } = this;
    const offsets = new Float64Array(items.length + 1);
    for (let at = 0; at < items.length; at += 1) offsets[at + 1] = offsets[at] + this.height(items[at]);
    this.offsets = offsets;
  }

  indexAt(y) {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offsets[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  update() {
    const { scroller } = this;
    this.layout();
    const top = scroller.scrollTop;
    const anchor = Math.min(this.indexAt(top), Math.max(this.items.length - 1, 0));
    const inside = top - (this.offsets[anchor] ?? 0);
    const first = this.indexAt(top - AHEAD);
    const last = Math.min(this.indexAt(top + scroller.clientHeight + AHEAD) + 1, this.items.length);
    this.render(first, last);
    // What was just drawn has its true height now; what is above must not push what is looked at.
    if (this.measure(first, last)) {
      this.layout();
      this.place(first, last);
      if (this.follow) scroller.scrollTop = scroller.scrollHeight;
      else if (anchor > first) scroller.scrollTop = this.offsets[anchor] + inside;
      this.schedule();
      return;
    }
    this.place(first, last);
    if (this.follow && scroller.scrollTop + scroller.clientHeight < scroller.scrollHeight - 1) scroller.scrollTop = scroller.scrollHeight;
  }

  place(first, last) {
    this.before.style.height = `${this.offsets[first]}px`;
    this.after.style.height = `${this.offsets[this.items.length] - this.offsets[last]}px`;
  }

  render(first, last) {
    const wanted = new Set();
    for (let at = first; at < last; at += 1) wanted.add(this.items[at].key);
    for (const [key, node] of this.nodes) {
      if (wanted.has(key)) continue;
      // What has the focus stays in the document, or the keyboard would lose its place.
      if (node.contains(document.activeElement)) continue;
      this.sizes.unobserve(node);
      node.remove();
      this.nodes.delete(key);
    }
    let previous = null;
    for (let at = first; at < last; at += 1) {
      const item = this.items[at];
      let node = this.nodes.get(item.key);
      if (!node) {
        node = document.createElement("article");
        node.tabIndex = -1;
        this.nodes.set(item.key, node);
        this.sizes.observe(node);
        this.fill(node, item);
      } else if (node.drawn !== item.version) this.fill(node, item);
      node.setAttribute("aria-posinset", String(at + 1));
      node.setAttribute("aria-setsize", String(this.items.length));
      node.dataset.key = item.key;
      const following = previous ? previous.nextSibling : this.feed.firstChild;
      if (following !== node) this.feed.insertBefore(node, following);
      previous = node;
    }
  }

  fill(node, item) {
    node.drawn = item.version;
    const focused = node.contains(document.activeElement) && document.activeElement !== node;
    node.replaceChildren(this.draw(item));
    node.className = `item ${item.kind}`;
    if (focused) node.focus({ preventScroll: true });
  }

  measure(first, last) {
    let changed = false;
    for (let at = first; at < last; at += 1) {
      const { key } = this.items[at];
      const node = this.nodes.get(key);
      const height = node ? node.getBoundingClientRect().height : 0;
      if (height && Math.abs((this.heights.get(key) ?? -1) - height) > 0.5) {
        this.heights.set(key, height);
        changed = true;
      }
    }
    return changed;
  }

  redraw(item) {
    const node = this.nodes.get((item.root ?? item).key);
    if (node) this.fill(node, item.root ?? item);
    this.schedule();
  }

  /** Bring an item into sight; its neighbours are measured on the way, so this settles in a few frames. */
  reveal(key, tries = 6) {
    const at = this.items.findIndex((item) => item.key === key);
    if (at < 0) return;
    this.follow = false;
    this.layout();
    this.scroller.scrollTop = this.offsets[at] - 60;
    this.update();
    if (tries) requestAnimationFrame(() => this.reveal(key, tries - 1));
    else {
      const node = this.nodes.get(key);
      node?.classList.add("found");
      node?.focus({ preventScroll: true });
    }
  }

  toEnd() {
    this.follow = true;
    this.schedule();
  }

  onKey(event) {
    const step = { PageDown: 1, PageUp: -1, j: 1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
    const node = event.target.closest("article");
    const at = node ? this.items.findIndex((item) => item.key === node.dataset.key) : this.indexAt(this.scroller.scrollTop) - step;
    const to = Math.max(0, Math.min(this.items.length - 1, at + step));
    event.preventDefault();
    this.follow = false;
    const key = this.items[to].key;
    if (!this.nodes.has(key)) {
      this.layout();
      this.scroller.scrollTop = this.offsets[to] - 60;
      this.update();
    }
    const target = this.nodes.get(key);
    target?.focus({ preventScroll: true });
    target?.scrollIntoView({ block: "nearest" });
  }
}
