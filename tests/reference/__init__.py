"""An independent reading and writing of ORC in plain Python, from the specification's text alone.

Slow and obvious on purpose: it is what the package is judged against, so it shares no code with it. It may
use the standard library, and for two codecs (zstd, brotli) pyarrow; it must never import `orcstream`.

Values have one neutral form, used by every judge: None, bool, int, float, str, bytes, `Decimal`; a date is
its day number, a timestamp is nanoseconds since 1970 (wall clock, or UTC for an instant); a list is a list, a
map is a list of (key, value) pairs, a struct is a tuple in field order, a union is `Union(tag, value)`.
"""
