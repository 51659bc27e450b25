"""Reads "arrow_schema" capsules of the Arrow PyCapsule protocol into plain Python values.

Knows the ArrowSchema struct (https://arrow.apache.org/docs/format/CDataInterface.html). Must not know what
formats mean, nor ORC types: `codec.arrow_schema` does. Contract: `import_schema` looks at the struct while
it holds the capsule and takes nothing over, so the capsule's own destructor releases it, and it may be read
again. What can be told to be wrong is an error: another capsule, a struct that was released, missing
pointers, negative counts, text that is no UTF-8, endless trees. Pointers that lead astray cannot be told
from good ones; a producer that makes them could as well crash the process itself.
"""

from collections import namedtuple

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, strlen

from orcstream.codec._arrow_structs cimport ArrowSchema
from orcstream.errors import SchemaMismatch, Unsupported, UsageError

__all__ = ["ArrowField", "import_schema"]

# One ArrowSchema struct. Keys and values of `metadata` may be any bytes.
ArrowField = namedtuple("ArrowField", ("format", "name", "metadata", "children", "dictionary"))

cdef enum:
    # Structs of a tree and pairs of a struct's metadata. Far above any real schema; a tree whose
    # branches share structs would double at each level.
    MAX_STRUCTS = 250000
    MAX_PAIRS = 250000


def import_schema(capsule, int most_levels):
    """The tree in the capsule; one of more than `most_levels` levels is Unsupported.

    Raises UsageError for what is no capsule of a schema, SchemaMismatch for a malformed one.
    """
    cdef Py_ssize_t left = MAX_STRUCTS
    if not PyCapsule_IsValid(capsule, b"arrow_schema"):
        raise UsageError(f"__arrow_c_schema__ answered {capsule!r:.200} and not an 'arrow_schema' capsule")
    return read(<ArrowSchema*> PyCapsule_GetPointer(capsule, b"arrow_schema"), None, "", most_levels, &left)


cdef object read(ArrowSchema* schema, tuple above, str step, int levels, Py_ssize_t* left):
    """`step` says which field it is until its name is known; `above` where it stands: the pair of the same
    two for the field around it, None at the root, whose own name says nothing.
    """
    cdef int64_t i
    cdef tuple where = (above, step)
    if levels <= 0:
        raise Unsupported(f"{place(where)} nests too deep", reason="schema_too_deep")
    if schema == NULL:
        raise SchemaMismatch(f"{place(where)} is missing: its pointer is NULL")
    if schema.release == NULL:
        raise SchemaMismatch(f"{place(where)} was released: a capsule can be consumed only once")
    if left[0] <= 0:
        raise SchemaMismatch(f"the Arrow schema has more than {MAX_STRUCTS} fields")
    left[0] -= 1

    name = "" if schema.name == NULL else text(schema.name, "name", where)
    if above is not None:
        where = (above, name)
    if schema.format == NULL:
        raise SchemaMismatch(f"{place(where)} has no format")
    format_ = text(schema.format, "format", where)
    if schema.n_children < 0 or (schema.n_children > 0 and schema.children == NULL):
        raise SchemaMismatch(f"{place(where)} has {schema.n_children} children, at no address")
    if schema.n_children > left[0]:
        raise SchemaMismatch(f"the Arrow schema has more than {MAX_STRUCTS} fields")
    metadata = pairs(schema.metadata, where)
    children = []
    for i in range(schema.n_children):
        children.append(read(schema.children[i], where, f"[{i}]", levels - 1, left))
    dictionary = None
    if schema.dictionary != NULL:
        dictionary = read(schema.dictionary, where, "[dictionary]", levels - 1, left)
    return ArrowField(format_, name, metadata, tuple(children), dictionary)


cdef str text(const char* start, str what, tuple where):
    try:
        return PyUnicode_DecodeUTF8(start, <Py_ssize_t> strlen(start), NULL)
    except UnicodeDecodeError as error:
        raise SchemaMismatch(f"the {what} of {place(where)} is no UTF-8: {error.object!r:.200}") from None


cdef tuple pairs(const char* at, tuple where):
    """A count, then length and bytes of each key and value; the counts are native int32, unaligned."""
    cdef int32_t count
    cdef int32_t length
    if at == NULL:
        return ()
    memcpy(&count, at, 4)
    at += 4
    if not 0 <= count <= MAX_PAIRS:
        raise SchemaMismatch(f"the metadata of {place(where)} has {count} pairs")
    found = []
    for _ in range(2 * count):
        memcpy(&length, at, 4)
        at += 4
        if length < 0:
            raise SchemaMismatch(f"the metadata of {place(where)} has a text of {length} bytes")
        found.append(PyBytes_FromStringAndSize(at, length))
        at += length
    return tuple(zip(found[::2], found[1::2]))


cdef str place(tuple where):
    names = []
    while where[0] is not None:
        names.append(where[1])
        where = where[0]
    return f"the Arrow field {'.'.join(reversed(names))!r}" if names else "the Arrow schema"
