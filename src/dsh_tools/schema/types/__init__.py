"""Python types as schemas: what a model is shown, and how its JSON becomes the body's values."""

from .finish import from_types
from .typed_schema import MAX_TYPED_DEPTH, TypedSchema

__all__ = ["MAX_TYPED_DEPTH", "TypedSchema", "from_types"]
