# A block of the pool, for code that runs without the interpreter's lock. Who holds one gives it back, or makes a `Buffer` of it.
cdef struct Block:
    unsigned char* ptr
    Py_ssize_t nbytes    # as were asked for
    Py_ssize_t capacity  # with the spare ones


cdef class Buffer:
    cdef unsigned char* ptr
    cdef readonly Py_ssize_t nbytes
    cdef Py_ssize_t capacity

cdef Buffer allocate(Py_ssize_t nbytes)
cdef int take_block(Block* block, Py_ssize_t nbytes) except -1 nogil
cdef int widen_block(Block* block, Py_ssize_t used, Py_ssize_t wanted) except -1 nogil
cdef void give_block(Block* block) noexcept nogil
cdef Buffer buffer_of(Block* block)
