"""Takes what the capsules of the Arrow PyCapsule protocol hold: schemas as plain values, arrays as buffers.

Knows the structs of https://arrow.apache.org/docs/format/CDataInterface.html and how many bytes each format needs.
Must not know ORC types: `codec.arrow.schema` and `codec.ingest.fitting` do.

Contract. `import_schema` looks at the struct while it holds the capsule and takes nothing over, so the capsule's own
destructor releases it, and it may be read again. `import_array` and `ArrowStream.read` move the array out of its
capsule or stream: it is released once, when the last of its buffers (`ArrowMemory`) dies, on whatever thread that is.

What can be told to be wrong is a SchemaMismatch: another capsule, a struct that was released, missing pointers,
negative counts, lengths that children do not have, offsets that go back or lead out of a child, text that is no UTF-8,
endless trees. The interface carries no sizes of buffers: how long one is follows from the lengths and offsets in the
array, and pointers that lead astray cannot be told from good ones. A producer that makes them could as well crash the
process itself. Type codes, dictionary indices, run ends and views are not looked at here; who follows them checks them.
"""

from collections import namedtuple

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset, strlen

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.arrow._arrow_structs cimport ArrowArray, ArrowArrayStream, ArrowSchema
from orcstream.errors import SchemaMismatch, SourceError, Unsupported, UsageError

# One ArrowSchema struct. Keys and values of `metadata` may be any bytes.
ArrowField = namedtuple("ArrowField", ("format", "name", "metadata", "children", "dictionary"))
# One ArrowArray struct. `buffers` are those of the format, in order, the data of views as a tuple in the last
# place; a bitmap that was not given is None. All reach up to value `offset + length`.
ArrowColumn = namedtuple("ArrowColumn", ("field", "length", "offset", "buffers", "children", "dictionary"))

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


# --- arrays ---------------------------------------------------------------------------------------

# Without the interpreter lock, which a producer may wait for on threads of its own.
ctypedef int (*schema_callback)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
ctypedef int (*array_callback)(ArrowArrayStream*, ArrowArray*) noexcept nogil

cdef enum:
    ALIGNMENT = 8

# Largest length and offset; sizes in bits and in bytes stay far from overflow.
cdef int64_t MAX_VALUES = <int64_t> 1 << 44

# What an empty buffer points to.
cdef int64_t[8] ZEROS
memset(ZEROS, 0, sizeof(ZEROS))

cdef dict ITEM_BYTES = {
    **dict.fromkeys(("c", "C"), 1),
    **dict.fromkeys(("s", "S", "e"), 2),
    **dict.fromkeys(("i", "I", "f", "tdD", "tts", "ttm", "tiM"), 4),
    **dict.fromkeys(("l", "L", "g", "tdm", "ttu", "ttn", "tDs", "tDm", "tDu", "tDn", "tiD"), 8),
    "tin": 16,
}
cdef dict OFFSET_BYTES = {"u": 4, "z": 4, "+l": 4, "+m": 4, "U": 8, "Z": 8, "+L": 8}


cdef class Owner:
    """An array that was moved here; its buffers refer to this."""

    cdef ArrowArray array

    def __cinit__(self):
        self.array.release = NULL

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef class ArrowMemory:
    """`nbytes` bytes of an array that another library made, read-only."""

    cdef object owner
    cdef const void* start
    cdef readonly Py_ssize_t nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*> self.start, self.nbytes, 1, flags)

    def __len__(self):
        return self.nbytes


def import_array(schema_capsule, array_capsule, int most_levels):
    """The array as an `ArrowColumn`, moved out of its capsule; the schema's tree as in `import_schema`."""
    cdef ArrowArray* array
    field = import_schema(schema_capsule, most_levels)
    if not PyCapsule_IsValid(array_capsule, b"arrow_array"):
        raise UsageError(f"__arrow_c_array__ answered {array_capsule!r:.200} and not an 'arrow_array' capsule")
    array = <ArrowArray*> PyCapsule_GetPointer(array_capsule, b"arrow_array")
    if array.release == NULL:
        raise SchemaMismatch("the Arrow array was released: a capsule can be consumed only once")
    return moved(array, field)


cdef object moved(ArrowArray* array, object field):
    cdef Owner owner = Owner()
    memcpy(&owner.array, array, sizeof(ArrowArray))
    array.release = NULL
    return column_of(owner, &owner.array, field, (None, ""))


cdef class ArrowStream:
    """The arrays of an "arrow_array_stream" capsule, in order; `field` is the type of all of them.

    The stream stays in its capsule, which this holds. One thread at a time may read or close it; another one gets
    a UsageError.
    """

    cdef object capsule
    cdef ArrowArrayStream* stream
    # Holds one thing while nobody is in the stream: lists pop atomically, without the interpreter's lock too.
    cdef list turn
    cdef readonly object field

    def __init__(self, capsule, int most_levels):
        cdef ArrowSchema schema
        cdef Py_ssize_t left = MAX_STRUCTS
        cdef int code
        if not PyCapsule_IsValid(capsule, b"arrow_array_stream"):
            raise UsageError(
                f"__arrow_c_stream__ answered {capsule!r:.200} and not an 'arrow_array_stream' capsule"
            )
        self.stream = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, b"arrow_array_stream")
        self.capsule = capsule
        self.turn = [None]
        if self.stream.release == NULL:
            raise SchemaMismatch("the Arrow stream was released: a capsule can be consumed only once")
        if self.stream.get_schema == NULL or self.stream.get_next == NULL:
            raise SchemaMismatch("the Arrow stream has no functions")
        schema.release = NULL
        with nogil:
            code = (<schema_callback> <void*> self.stream.get_schema)(self.stream, &schema)
        if code:
            raise self.failure(code)
        try:
            self.field = read(&schema, None, "", most_levels, &left)
        finally:
            if schema.release != NULL:
                schema.release(&schema)

    def read(self):
        """The next array as an `ArrowColumn`, None at the end; what the producer fails with is a SourceError."""
        self.enter()
        try:
            return self.next()
        finally:
            self.turn.append(None)

    def close(self):
        """Release the stream now, and not when its capsule dies."""
        self.enter()
        try:
            self.release()
        finally:
            self.turn.append(None)

    cdef object enter(self):
        try:
            self.turn.pop()
        except IndexError:
            raise UsageError("an Arrow stream is being read by another thread") from None

    cdef object next(self):
        cdef ArrowArray array
        cdef int code
        if self.stream == NULL:
            return None
        array.release = NULL
        with nogil:
            code = (<array_callback> <void*> self.stream.get_next)(self.stream, &array)
        if code:
            raise self.failure(code)
        if array.release == NULL:
            self.release()
            return None
        return moved(&array, self.field)

    cdef object release(self):
        cdef ArrowArrayStream* stream = self.stream
        self.stream = NULL
        if stream != NULL and stream.release != NULL:
            stream.release(stream)
            stream.release = NULL
        self.capsule = None

    cdef object failure(self, int code):
        cdef const char* message = NULL
        if self.stream.get_last_error != NULL:
            message = self.stream.get_last_error(self.stream)
        said = "" if message == NULL else ": " + (<bytes> message).decode("utf-8", "replace")
        return SourceError(f"the Arrow stream failed with error {code}{said}")


cdef object column_of(Owner owner, ArrowArray* array, object field, tuple where):
    """The tree of arrays, each as the format of its field says; `where` as in `read`."""
    cdef str format_ = field.format
    cdef int64_t i
    cdef list children = []
    if array == NULL:
        raise SchemaMismatch(f"the array of {place(where)} is missing: its pointer is NULL")
    if array.release == NULL:
        raise SchemaMismatch(f"the array of {place(where)} was released")
    if not (0 <= array.length <= MAX_VALUES and 0 <= array.offset <= MAX_VALUES):
        raise SchemaMismatch(f"{place(where)} has {array.length} values from {array.offset} on")
    if array.n_children != len(field.children) or (array.n_children > 0 and array.children == NULL):
        raise SchemaMismatch(f"the array of {place(where)} has not the children of its type")
    if (array.dictionary == NULL) != (field.dictionary is None):
        raise SchemaMismatch(f"the array of {place(where)} has not the dictionary of its type")
    for i in range(array.n_children):
        child = field.children[i]
        children.append(column_of(owner, array.children[i], child, (where, child.name)))
    dictionary = None
    if array.dictionary != NULL:
        dictionary = column_of(owner, array.dictionary, field.dictionary, (where, "[dictionary]"))
    buffers = buffers_of(owner, array, format_, where)
    check_children(array, format_, children, where)
    return ArrowColumn(field, array.length, array.offset, buffers, tuple(children), dictionary)


cdef tuple buffers_of(Owner owner, ArrowArray* array, str format_, tuple where):
    cdef int64_t end = array.offset + array.length
    cdef int64_t item
    if format_ == "n" or format_ == "+r":
        expect(array, 0, where)
        return ()
    if format_.startswith("+us:"):
        expect(array, 1, where)
        return (memory(owner, array, 0, end, where),)
    if format_.startswith("+ud:"):
        expect(array, 2, where)
        return memory(owner, array, 0, end, where), memory(owner, array, 1, end * 4, where)
    if format_ == "vu" or format_ == "vz":
        return views(owner, array, end, where)
    if format_ == "+s" or format_.startswith("+w:"):
        expect(array, 1, where)
    else:
        expect(array, 3 if format_ in ("u", "z", "U", "Z", "+vl", "+vL") else 2, where)
    validity = bitmap(owner, array, end, where)
    if array.n_buffers == 1:
        return (validity,)
    if format_ == "b":
        return validity, memory(owner, array, 1, (end + 7) // 8, where)
    if format_ in OFFSET_BYTES:
        item = OFFSET_BYTES[format_]
        if end == 0 and array.buffers[1] == NULL:
            # Producers may leave out the one offset of an empty array.
            offsets = made(owner, ZEROS, item)
        else:
            offsets = memory(owner, array, 1, (end + 1) * item, where)
        item = last_offset(offsets, item, array.offset, array.length, where)
        if array.n_buffers == 2:
            return validity, offsets
        return validity, offsets, memory(owner, array, 2, item, where)
    if format_ == "+vl" or format_ == "+vL":
        item = 4 if format_ == "+vl" else 8
        return validity, memory(owner, array, 1, end * item, where), memory(owner, array, 2, end * item, where)
    return validity, memory(owner, array, 1, end * item_bytes(format_, where), where)


cdef int expect(ArrowArray* array, int64_t count, tuple where) except -1:
    if array.n_buffers != count or (count > 0 and array.buffers == NULL):
        raise SchemaMismatch(f"the array of {place(where)} has {array.n_buffers} buffers and not {count}")
    return 0


cdef int64_t item_bytes(str format_, tuple where) except -1:
    if format_ in ITEM_BYTES:
        return ITEM_BYTES[format_]
    try:
        if format_.startswith("w:"):
            width = int(format_[2:])
            if 0 <= width < 1 << 18:
                return width
        elif format_.startswith("d:"):
            parts = format_[2:].split(",")
            return {"32": 4, "64": 8, "128": 16, "256": 32}[parts[2] if len(parts) == 3 else "128"]
        elif format_[:3] in ("tss", "tsm", "tsu", "tsn"):
            return 8
    except (ValueError, KeyError):
        pass
    raise SchemaMismatch(f"{place(where)} has the Arrow format {format_!r:.100}, which is not known here")


cdef ArrowMemory made(Owner owner, const void* start, int64_t nbytes):
    cdef ArrowMemory memory = ArrowMemory.__new__(ArrowMemory)
    memory.owner = owner
    memory.start = start
    memory.nbytes = nbytes
    return memory


cdef object memory(Owner owner, ArrowArray* array, int64_t index, int64_t nbytes, tuple where):
    """A buffer of the array; one whose values are not aligned is copied, since others count on it."""
    cdef const void* start = array.buffers[index]
    cdef Buffer copy
    if nbytes == 0:
        return made(owner, ZEROS, 0)
    if start == NULL:
        raise SchemaMismatch(f"buffer {index} of {place(where)} is missing, and {nbytes} bytes belong to it")
    if index > 0 and <size_t> start % ALIGNMENT:
        copy = allocate(nbytes)
        memcpy(copy.ptr, start, nbytes)
        return copy
    return made(owner, start, nbytes)


cdef object bitmap(Owner owner, ArrowArray* array, int64_t end, tuple where):
    if array.buffers[0] != NULL:
        return memory(owner, array, 0, (end + 7) // 8, where)
    if array.null_count > 0:
        raise SchemaMismatch(f"{place(where)} has nulls and no bitmap")
    return None


cdef tuple views(Owner owner, ArrowArray* array, int64_t end, tuple where):
    """Validity, views, and a tuple of the buffers that views point into, whose sizes are in the last buffer."""
    cdef int64_t count = array.n_buffers - 3
    cdef int64_t i
    cdef const int64_t* sizes
    if count < 0 or count > MAX_STRUCTS or array.buffers == NULL or (count > 0 and array.buffers[count + 2] == NULL):
        raise SchemaMismatch(f"the array of {place(where)} has {array.n_buffers} buffers")
    validity = bitmap(owner, array, end, where)
    sizes = <const int64_t*> array.buffers[count + 2]
    data = []
    for i in range(count):
        if not 0 <= sizes[i] <= MAX_VALUES:
            raise SchemaMismatch(f"buffer {i + 2} of {place(where)} has {sizes[i]} bytes")
        data.append(memory(owner, array, i + 2, sizes[i], where))
    return validity, memory(owner, array, 1, end * 16, where), tuple(data)


cdef int64_t last_offset(object offsets, int64_t item, int64_t start, int64_t length, tuple where) except -1:
    """The last of the offsets, which never go back and begin at 0 or later."""
    cdef const unsigned char[::1] view = offsets
    cdef const int32_t* narrow = <const int32_t*> &view[0] + start
    cdef const int64_t* wide = <const int64_t*> &view[0] + start
    cdef int64_t i, last
    cdef bint bad = False
    with nogil:
        if item == 4:
            bad = narrow[0] < 0
            for i in range(length):
                bad |= narrow[i + 1] < narrow[i]
            last = narrow[length]
        else:
            bad = wide[0] < 0
            for i in range(length):
                bad |= wide[i + 1] < wide[i]
            last = wide[length]
    if bad or last > MAX_VALUES:
        raise SchemaMismatch(f"the offsets of {place(where)} go back, or are out of range")
    return last


cdef int check_children(ArrowArray* array, str format_, list children, tuple where) except -1:
    """Whether children are as long as their parent says; unions and run ends are for who follows them."""
    cdef int64_t end = array.offset + array.length
    cdef int64_t least = 0
    cdef const void* last
    if format_ == "+s" or format_.startswith("+us:"):
        least = end
    elif format_.startswith("+w:"):
        try:
            width = int(format_[3:])
        except ValueError:
            width = -1
        if not 0 <= width < 1 << 31 or end * width > MAX_VALUES:
            raise SchemaMismatch(f"{place(where)} has the Arrow format {format_!r:.100}")
        least = end * width
    elif format_ in ("+l", "+m", "+L") and array.buffers[1] != NULL:
        if OFFSET_BYTES[format_] == 4:
            least = (<const int32_t*> array.buffers[1])[end]
        else:
            least = (<const int64_t*> array.buffers[1])[end]
    for child in children:
        if child.length < least:
            raise SchemaMismatch(
                f"{place(where)} needs {least} values of its child {child.field.name!r}, which has {child.length}"
            )
    return 0
