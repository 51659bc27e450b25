"""Memory for bytes fetched and vectors decoded: 64-byte aligned blocks, recycled when their last user lets go.

Knows nothing of what it holds. Fresh memory costs a page fault for every 4 KiB, which is more than decoding it;
so blocks go to a pool by size class when they are freed, up to a limit, and the next user
takes them from there, warm. The pool is one for the process: a vector outlives the read that made it. Each block is
`SLACK` bytes longer than asked for, so that kernels may load 8 bytes at a time anywhere in it.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MIN

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** pointer, size_t alignment, size_t size)

cdef extern from *:
    """
    #ifdef __GLIBC__
    #include <malloc.h>
    static void trim_heaps(void) { malloc_trim(0); }
    #else
    static void trim_heaps(void) {}
    #endif
    """
    void trim_heaps() nogil

cdef enum:
    SLACK = 64
    OVER = 64  # 2^n numbers, and offsets of 2^n texts, shall be of one class and fill it
    CLASSES = 144  # up to MOST_BYTES
    SLOTS = 4096
    POOLED_FROM = 16384  # smaller blocks are malloc's business


cdef void* _pool[CLASSES][SLOTS]
cdef int _pooled[CLASSES]
cdef Py_ssize_t MOST_BYTES = (<Py_ssize_t> 1) << 47  # all that a process can address
cdef Py_ssize_t FROM_BLOCK = PY_SSIZE_T_MIN  # as a size: the memory is there already
cdef Py_ssize_t _retained = 0
cdef Py_ssize_t _retain_limit = 1024 * 1024 * 1024
cdef cython.pymutex _lock


cdef Py_ssize_t _size_of(int index) noexcept nogil:
    """The block size of a class."""
    cdef Py_ssize_t base = (<Py_ssize_t> POOLED_FROM) << (index // 4)
    return base + (index % 4) * (base // 4) + OVER + SLACK


cdef int _class_of(Py_ssize_t size, Py_ssize_t* rounded) noexcept nogil:
    """Four classes for each power of two from POOLED_FROM on; `rounded` is the class's block size.

    `size` is what is asked for.
    """
    cdef int exponent = 0
    cdef Py_ssize_t base = POOLED_FROM
    cdef int index
    size = max(size - OVER, base)
    while base * 2 <= size:
        base *= 2
        exponent += 1
    cdef Py_ssize_t step = base // 4
    index = exponent * 4 + <int> ((size - base + step - 1) // step)
    rounded[0] = _size_of(index)
    return index


cdef int take_block(Block* block, Py_ssize_t nbytes) except -1 nogil:
    """Memory for `nbytes` bytes, from the pool where it has some; what the block held before is not looked at."""
    cdef Py_ssize_t size = nbytes + SLACK
    cdef int index
    cdef void* found = NULL
    if nbytes < 0 or nbytes > MOST_BYTES:
        with gil:
            raise ValueError("negative size") if nbytes < 0 else MemoryError(f"{nbytes} bytes")
    if nbytes >= POOLED_FROM:
        index = _class_of(nbytes, &size)
        with _lock:
            if _pooled[index] > 0:
                _pooled[index] -= 1
                found = _pool[index][_pooled[index]]
                _take(size)
    if found == NULL and posix_memalign(&found, 64, size) != 0:
        with gil:
            raise MemoryError(f"{nbytes} bytes")
    block.ptr = <unsigned char*> found
    block.nbytes = nbytes
    block.capacity = size
    return 0


cdef int widen_block(Block* block, Py_ssize_t used, Py_ssize_t wanted) except -1 nogil:
    """Make the block at least `wanted` bytes long, or twice as long as it was; its first `used` bytes stay."""
    cdef Block wider
    if block.ptr != NULL and block.nbytes >= wanted:
        return 0
    take_block(&wider, max(wanted, 2 * block.nbytes))
    if used:
        memcpy(wider.ptr, block.ptr, used)
    give_block(block)
    block[0] = wider
    return 0


cdef void give_block(Block* block) noexcept nogil:
    """Give memory back, if the block has any; it has none then."""
    cdef Py_ssize_t size = block.capacity
    cdef int index
    cdef bint kept = False
    if block.ptr == NULL:
        return
    if size >= POOLED_FROM + SLACK:
        index = _class_of(size - SLACK, &size)  # as it was
        with _lock:
            if _pooled[index] < SLOTS and _retained + size <= _retain_limit:
                _pool[index][_pooled[index]] = block.ptr
                _pooled[index] += 1
                _take(-size)
                kept = True
    if not kept:
        free(block.ptr)
    block.ptr = NULL
    block.nbytes = block.capacity = 0


cdef Buffer buffer_of(Block* block):
    """The block's memory as an object; the block has none then."""
    cdef Buffer buffer = Buffer.__new__(Buffer, FROM_BLOCK)
    buffer.ptr = block.ptr
    buffer.nbytes = block.nbytes
    buffer.capacity = block.capacity
    block.ptr = NULL
    block.nbytes = block.capacity = 0
    return buffer


cdef class Buffer:
    """A block of `nbytes` writable bytes with the buffer protocol."""

    def __cinit__(self, Py_ssize_t nbytes):
        cdef Block block
        if nbytes == FROM_BLOCK:
            return
        take_block(&block, nbytes)
        self.ptr = block.ptr
        self.nbytes = nbytes
        self.capacity = block.capacity

    def __dealloc__(self):
        cdef Block block
        block.ptr = self.ptr
        block.capacity = self.capacity
        give_block(&block)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, self.nbytes, 0, flags)

    def __len__(self):
        return self.nbytes

    @property
    def address(self):
        return <size_t> self.ptr


cdef void _take(Py_ssize_t size) noexcept nogil:
    global _retained
    _retained -= size


cdef Buffer allocate(Py_ssize_t nbytes):
    return Buffer.__new__(Buffer, nbytes)


def zeroed(Py_ssize_t nbytes):
    """A block of zero bytes."""
    cdef Buffer buffer = allocate(nbytes)
    memset(buffer.ptr, 0, nbytes)
    return buffer


def retained_bytes():
    """Bytes in the pool: freed by their users, not given back to the system."""
    return _retained


def release_retained(Py_ssize_t keep=0):
    """Give pooled memory back to the system until at most `keep` bytes are left in the pool."""
    cdef int index
    with _lock:
        for index in range(CLASSES - 1, -1, -1):
            while _pooled[index] > 0 and _retained > keep:
                _pooled[index] -= 1
                free(_pool[index][_pooled[index]])
                _take(_size_of(index))


def trim():
    """Return what was freed to the system, where the C library keeps it: glibc does, for each thread's heap.

    Takes milliseconds for each gigabyte, without the interpreter's lock.
    """
    with nogil:
        trim_heaps()


def set_retain_limit(Py_ssize_t limit):
    """How many freed bytes the pool may keep; answers the former limit."""
    global _retain_limit
    cdef Py_ssize_t former = _retain_limit
    _retain_limit = limit
    return former
