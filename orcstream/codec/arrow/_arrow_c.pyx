"""Exports column vectors through the Arrow C data interface, in PyCapsules, without copying.

Knows the three structs of the interface (https://arrow.apache.org/docs/format/CDataInterface.html and
CStreamInterface.html), who frees what, and how many bytes each format needs. Must not know ORC types,
encodings or I/O: it reads the attributes of a `Field` and a `Vector` and nothing else.

Contract. `export_schema`, `export_array`, `export_vectors` and `export_stream` answer capsules that own what they point to
until a consumer moves it out (and sets `release` to NULL). An exported array holds the buffers of its
vector, by the buffer protocol, until it is released; the release may come from any thread, with or
without the interpreter lock. Every node owns its own part, so a consumer may move single children out.
A vector whose buffers are too small or misaligned for its format is a `ValueError`: a bug of ours,
caught before foreign code would read past the end.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EIO
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from orcstream.codec.arrow._arrow_structs cimport ArrowArray, ArrowArrayStream, ArrowSchema
from orcstream.errors import Unsupported

cdef extern from *:
    """
    /* Consumers may let go of an array from a thread of theirs while the interpreter shuts down; waiting
       for the lock would then end that thread. The memory is left to the operating system instead. */
    #if PY_VERSION_HEX >= 0x030D0000
    #define ORCSTREAM_FINALIZING() Py_IsFinalizing()
    #else
    #define ORCSTREAM_FINALIZING() _Py_IsFinalizing()
    #endif
    static int orcstream_python_usable(void) {
        return Py_IsInitialized() && (!ORCSTREAM_FINALIZING() || PyGILState_Check());
    }
    """
    bint python_usable "orcstream_python_usable"() noexcept nogil
    int64_t fetch_and_add "__sync_fetch_and_add"(int64_t* number, int64_t more) noexcept nogil

cdef enum:
    FLAG_NULLABLE = 2
    MAX_UNION_CHILDREN = 128  # type ids are int8 and not negative

# What stands behind `private_data`. `nodes` holds the children's structs and, last, the dictionary's.
cdef struct SchemaParts:
    char* text
    ArrowSchema* nodes
    ArrowSchema** children

cdef struct ArrayParts:
    int view_count
    Py_buffer views[3]
    const void* buffers[3]
    ArrowArray* nodes
    ArrowArray** children

# `arrays` are those that are there; the others are pulled from the state, if any are.
cdef struct StreamParts:
    PyObject* state
    bint pulls
    ArrowArray* arrays
    Py_ssize_t count
    int64_t taken

cdef const char* STREAM_NAME = b"arrow_array_stream"

# What an empty buffer points to: consumers read the first offset even of an array of length 0.
cdef int64_t[4] ZEROS
ZEROS[:] = [0, 0, 0, 0]

# Bytes of a value, of primitive formats.
cdef dict WIDTHS = {"c": 1, "s": 2, "i": 4, "f": 4, "td": 4, "l": 8, "g": 8, "ts": 8, "d": 16}

# Largest offset + length; sizes in bits and in bytes stay far from overflow.
cdef Py_ssize_t MAX_VALUES = 1 << 48


def export_schema(field):
    """An "arrow_schema" capsule of the field."""
    cdef ArrowSchema* schema = NULL
    capsule = own(<void**> &schema, sizeof(ArrowSchema), b"arrow_schema", drop_schema)
    fill_schema(schema, field)
    return capsule


def export_array(field, vector):
    """Capsules "arrow_schema" and "arrow_array" of a vector; nothing is copied."""
    cdef ArrowArray* array = NULL
    capsule = own(<void**> &array, sizeof(ArrowArray), b"arrow_array", drop_array)
    fill_array(array, field, vector)
    return export_schema(field), capsule


def export_vectors(field, list vectors):
    """An "arrow_array_stream" capsule of vectors that are there: what asks for the next takes no lock."""
    cdef Py_ssize_t i
    capsule = export_stream(field, None)
    parts = <StreamParts*> (<ArrowArrayStream*> PyCapsule_GetPointer(capsule, STREAM_NAME)).private_data
    parts.arrays = <ArrowArray*> calloc(max(len(vectors), 1), sizeof(ArrowArray))
    if parts.arrays == NULL:
        raise MemoryError
    for i in range(len(vectors)):
        parts.count = i + 1
        fill_array(&parts.arrays[i], field, vectors[i])
    return capsule


def export_stream(field, pull):
    """An "arrow_array_stream" capsule; `pull()` answers the next vector, or None at the end.

    It is called when the consumer asks, on the consumer's thread. What it raises becomes the stream's
    last error (type and message), again at each later call.
    """
    cdef ArrowArrayStream* stream = NULL
    capsule = own(<void**> &stream, sizeof(ArrowArrayStream), STREAM_NAME, drop_stream)
    parts = <StreamParts*> calloc(1, sizeof(StreamParts))
    if parts == NULL:
        raise MemoryError
    state = StreamState(field, pull)
    Py_INCREF(state)
    parts.state = <PyObject*> state
    parts.pulls = pull is not None
    stream.private_data = parts
    stream.get_schema = stream_schema
    stream.get_next = stream_next
    stream.get_last_error = stream_last_error
    stream.release = release_stream
    return capsule


# --- capsules -------------------------------------------------------------------------------------


cdef object own(void** struct_, size_t size, const char* name, void (*drop)(object) noexcept):
    """A capsule of a new struct, not filled yet: on an error half-way the capsule's destructor cleans up."""
    struct_[0] = calloc(1, size)
    if struct_[0] == NULL:
        raise MemoryError
    try:
        return PyCapsule_New(struct_[0], name, drop)
    except BaseException:
        free(struct_[0])
        raise


ctypedef fused struct_t:
    ArrowSchema
    ArrowArray
    ArrowArrayStream


cdef void release_one(struct_t* one) noexcept nogil:
    if one != NULL and one.release != NULL:
        one.release(one)


ctypedef fused node_t:
    ArrowSchema
    ArrowArray


cdef void release_nodes(node_t* node) noexcept nogil:
    """What is below a node."""
    cdef int64_t i
    for i in range(node.n_children):
        release_one(node.children[i])
    release_one(node.dictionary)


cdef void drop(struct_t* one) noexcept:
    release_one(one)
    free(one)


cdef void drop_schema(object capsule) noexcept:
    drop(<ArrowSchema*> PyCapsule_GetPointer(capsule, b"arrow_schema"))


cdef void drop_array(object capsule) noexcept:
    drop(<ArrowArray*> PyCapsule_GetPointer(capsule, b"arrow_array"))


cdef void drop_stream(object capsule) noexcept:
    drop(<ArrowArrayStream*> PyCapsule_GetPointer(capsule, STREAM_NAME))


# --- schemas --------------------------------------------------------------------------------------


cdef int fill_schema(ArrowSchema* schema, object field) except -1:
    cdef bytes format_ = field.format.encode()
    cdef bytes name = field.name.encode()
    cdef bytes metadata = encode_metadata(field.metadata)
    cdef tuple children = field.children
    cdef Py_ssize_t i
    cdef char* text
    if b"\0" in name:
        raise Unsupported(
            f"the column name {field.name!r} holds a NUL character, which Arrow's C interface cannot carry",
            reason="nul_in_name",
        )
    if len(children) > MAX_UNION_CHILDREN and format_.startswith(b"+ud:"):
        raise Unsupported(
            f"the union {field.name!r} has {len(children)} children; Arrow's have at most {MAX_UNION_CHILDREN}",
            reason="union_too_wide",
        )
    cdef SchemaParts* parts = <SchemaParts*> calloc(1, sizeof(SchemaParts))
    if parts == NULL:
        raise MemoryError
    # From here on `release` cleans up whatever has been filled in.
    schema.private_data = parts
    schema.release = release_schema
    parts.text = text = <char*> malloc(len(format_) + 1 + len(name) + 1 + len(metadata))
    parts.nodes = <ArrowSchema*> calloc(len(children) + 1, sizeof(ArrowSchema))
    parts.children = <ArrowSchema**> calloc(len(children) + 1, sizeof(ArrowSchema*))
    if text == NULL or parts.nodes == NULL or parts.children == NULL:
        raise MemoryError

    schema.format = text
    memcpy(text, <const char*> format_, len(format_) + 1)
    text += len(format_) + 1
    schema.name = text
    memcpy(text, <const char*> name, len(name) + 1)
    if metadata:
        text += len(name) + 1
        schema.metadata = text
        memcpy(text, <const char*> metadata, len(metadata))
    if field.nullable:
        schema.flags = FLAG_NULLABLE

    schema.children = parts.children
    for i in range(len(children)):
        parts.children[i] = &parts.nodes[i]
        schema.n_children = i + 1
        fill_schema(&parts.nodes[i], children[i])
    if field.dictionary is not None:
        schema.dictionary = &parts.nodes[len(children)]
        fill_schema(schema.dictionary, field.dictionary)
    return 0


cdef bytes encode_metadata(tuple pairs):
    """Pairs as the interface wants them: a count, then length and bytes of each, in native int32."""
    cdef int32_t number
    if not pairs:
        return b""
    number = len(pairs)
    parts = [(<const char*> &number)[:4]]
    for pair in pairs:
        for text in pair:
            raw = text.encode()
            number = len(raw)
            parts.append((<const char*> &number)[:4])
            parts.append(raw)
    return b"".join(parts)


cdef void release_schema(ArrowSchema* schema) noexcept nogil:
    cdef SchemaParts* parts = <SchemaParts*> schema.private_data
    release_nodes(schema)
    free(parts.text)
    free(parts.nodes)
    free(parts.children)
    free(parts)
    schema.release = NULL


# --- arrays ---------------------------------------------------------------------------------------


cdef int fill_array(ArrowArray* array, object field, object vector) except -1:
    cdef tuple buffers = vector.buffers
    cdef tuple fields = field.children
    cdef tuple children = vector.children
    cdef Py_ssize_t length = vector.length
    cdef Py_ssize_t offset = vector.offset
    cdef Py_ssize_t i
    if length < 0 or offset < 0 or length > MAX_VALUES or offset > MAX_VALUES:
        raise ValueError("length or offset of a vector")
    if field.format == "+m" and (len(fields) != 1 or len(fields[0].children) != 2):
        raise ValueError(f"{field.name!r} is no field of a map")
    if len(children) != len(fields) or (vector.dictionary is None) != (field.dictionary is None):
        raise ValueError(f"the vector of {field.name!r} has not the children of its field")
    cdef ArrayParts* parts = <ArrayParts*> calloc(1, sizeof(ArrayParts))
    if parts == NULL:
        raise MemoryError
    # From here on `release` cleans up whatever has been filled in.
    array.private_data = parts
    array.release = release_array
    array.length = length
    array.offset = offset
    array.null_count = vector.null_count
    array.buffers = parts.buffers
    array.n_buffers = fill_buffers(array, parts, field.format, buffers, offset + length, children)

    if fields or field.dictionary is not None:
        parts.nodes = <ArrowArray*> calloc(len(fields) + 1, sizeof(ArrowArray))
        parts.children = <ArrowArray**> calloc(len(fields) + 1, sizeof(ArrowArray*))
        if parts.nodes == NULL or parts.children == NULL:
            raise MemoryError
        array.children = parts.children
    for i in range(len(fields)):
        parts.children[i] = &parts.nodes[i]
        array.n_children = i + 1
        fill_array(&parts.nodes[i], fields[i], children[i])
    if field.format == "+m":
        # Null keys are refused before. Before pyarrow 26, "not counted" was taken for some.
        parts.children[0].children[0].null_count = 0
    if field.dictionary is not None:
        array.dictionary = &parts.nodes[len(fields)]
        fill_array(array.dictionary, field.dictionary, vector.dictionary)
    return 0


cdef int fill_buffers(
    ArrowArray* array, ArrayParts* parts, str format_, tuple buffers, Py_ssize_t stop, tuple children
) except -1:
    """Takes the buffers of a vector whose values end at `stop`; answers how many its format has."""
    cdef Py_UCS4 kind = format_[0]
    cdef Py_ssize_t last
    cdef Py_ssize_t width = WIDTHS.get(format_[:2] if kind == u"t" else format_[:1], 0)
    cdef int count
    if format_.startswith("+ud:"):
        # No validity: null unions are nulls of child 0.
        check_count(buffers, 2, format_)
        array.null_count = 0
        take(parts, 0, buffers[0], stop, 1)
        take(parts, 1, buffers[1], stop * 4, 4)
        return 2
    if width or kind == u"b" or format_ == "+l" or format_ == "+m":
        count = 2
    elif kind == u"u" or kind == u"z":
        count = 3
    elif format_ == "+s":
        count = 1
    else:
        raise ValueError(f"no export of the Arrow format {format_!r}")
    check_count(buffers, count, format_)
    if buffers[0] is None:
        array.null_count = 0
    else:
        take(parts, 0, buffers[0], (stop + 7) // 8, 1)

    if width:
        take(parts, 1, buffers[1], stop * width, min(width, 8))
    elif kind == u"b":
        take(parts, 1, buffers[1], (stop + 7) // 8, 1)
    elif kind == u"u" or kind == u"z":
        last = take_offsets(parts, buffers[1], stop)
        take(parts, 2, buffers[2], last, 1)
    elif format_ == "+s":
        for child in children:
            if child.length < stop:
                raise ValueError("a struct's child is shorter than the struct")
    elif take_offsets(parts, buffers[1], stop) > children[0].length:
        raise ValueError("a list's last offset is past its child's end")
    return count


cdef int check_count(tuple buffers, int count, str format_) except -1:
    if len(buffers) != count:
        raise ValueError(f"a vector of format {format_!r} has {count} buffers, not {len(buffers)}")
    return 0


cdef Py_ssize_t take_offsets(ArrayParts* parts, object buffer, Py_ssize_t stop) except -1:
    """Takes the offsets of strings, lists and maps; answers the last one."""
    cdef int32_t last
    # An empty vector may leave out even its one offset.
    take(parts, 1, buffer, (stop + 1) * 4 if stop else 0, 4)
    if stop == 0 and parts.views[parts.view_count - 1].len < 4:
        parts.buffers[1] = &ZEROS[0]
    last = (<const int32_t*> parts.buffers[1])[stop]
    if last < 0:
        raise ValueError("a negative offset")
    return last


cdef int take(ArrayParts* parts, int index, object buffer, Py_ssize_t needed, Py_ssize_t alignment) except -1:
    """Holds the buffer until the array is released, after checking its size."""
    cdef Py_buffer* view = &parts.views[parts.view_count]
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    parts.view_count += 1
    if view.len < needed:
        raise ValueError(f"buffer {index} of a vector has {view.len} bytes, {needed} are needed")
    if view.buf == NULL or view.len == 0:
        parts.buffers[index] = &ZEROS[0]
        return 0
    if <uintptr_t> view.buf % <uintptr_t> alignment:
        raise ValueError(f"buffer {index} of a vector is not aligned to {alignment} bytes")
    parts.buffers[index] = view.buf
    return 0


cdef void release_array(ArrowArray* array) noexcept nogil:
    if python_usable():
        release_array_parts(array)
    array.release = NULL


cdef void release_array_parts(ArrowArray* array) noexcept with gil:
    # One lock for the whole tree: the children's own callbacks then find it taken.
    cdef ArrayParts* parts = <ArrayParts*> array.private_data
    cdef int i
    release_nodes(array)
    for i in range(parts.view_count):
        PyBuffer_Release(&parts.views[i])
    free(parts.nodes)
    free(parts.children)
    free(parts)


# --- streams --------------------------------------------------------------------------------------


cdef class StreamState:
    cdef object field
    cdef object pull
    cdef bytes error

    def __init__(self, field, pull):
        self.field = field
        self.pull = pull


cdef int stream_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept with gil:
    cdef StreamState state = <StreamState> (<StreamParts*> stream.private_data).state
    memset(out, 0, sizeof(ArrowSchema))
    try:
        fill_schema(out, state.field)
    except BaseException as error:
        if out.release != NULL:
            out.release(out)
        state.error = describe(error)
        return EIO
    return 0


cdef int stream_next(ArrowArrayStream* stream, ArrowArray* out) noexcept nogil:
    cdef StreamParts* parts = <StreamParts*> stream.private_data
    cdef int64_t index
    memset(out, 0, sizeof(ArrowArray))
    if parts.pulls:
        return pull_next(parts, out)
    index = fetch_and_add(&parts.taken, 1)  # each of several threads gets another one
    if index < parts.count:
        out[0] = parts.arrays[index]
        parts.arrays[index].release = NULL
    return 0


cdef int pull_next(StreamParts* parts, ArrowArray* out) noexcept with gil:
    cdef StreamState state = <StreamState> parts.state
    if state.pull is None:
        return 0 if state.error is None else EIO
    try:
        vector = state.pull()
        if vector is None:
            state.pull = None
        else:
            fill_array(out, state.field, vector)
    except BaseException as error:
        if out.release != NULL:
            out.release(out)
        state.error = describe(error)
        state.pull = None
        return EIO
    return 0


cdef bytes describe(error):
    try:
        text = str(error)
    except Exception:
        text = "(no message)"
    return f"{type(error).__name__}: {text}".replace("\0", " ").encode("utf-8", "replace")


cdef const char* stream_last_error(ArrowArrayStream* stream) noexcept with gil:
    cdef StreamState state = <StreamState> (<StreamParts*> stream.private_data).state
    return NULL if state.error is None else <char*> state.error


cdef void release_stream(ArrowArrayStream* stream) noexcept nogil:
    if python_usable():
        release_stream_parts(<StreamParts*> stream.private_data)
    stream.release = NULL


cdef void release_stream_parts(StreamParts* parts) noexcept with gil:
    cdef Py_ssize_t i
    for i in range(parts.count):
        release_one(&parts.arrays[i])
    free(parts.arrays)
    Py_DECREF(<object> parts.state)
    free(parts)
