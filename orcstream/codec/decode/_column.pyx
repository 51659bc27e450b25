"""Decoders of columns: how the values of their streams become vectors, some rows at a time, without the interpreter's lock.

A column decoder turns the value streams of one column (and its children) into vectors. It is asked twice:
`ready(n)` decodes ahead as far as it must to say how many of the next n rows can be had, given the bytes
fed so far and a budget for decoded bytes; `take(k)` then hands out k of them. Nothing is lost between the
two: values decoded ahead stay pending in their streams. So a window can end at any row, children are sized
after their parents' lengths are decoded, and a stream that runs dry is counted in the turn, fed, and the decoder asked
again.

Rows are counted in the parent's space and carry the parent's mask, so that a null struct needs no second
pass over its children. Must not know stripes, files or threads.

Workers call `decode` for all columns and windows of rows that they took on; it needs no lock up to its end. It leaves memory
(`Taken`), one entry for each column of the tree, of which vectors are made afterwards.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc

from cpython.pythread cimport (
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)
from cpython.ref cimport PyObject
from cpython.time cimport perf_counter

from orcstream._buffer cimport Block, buffer_of, give_block, take_block
from orcstream.codec._raised cimport raised
from orcstream.codec.streams._codecs cimport Codec
from orcstream.codec.streams._values cimport BoolValues, Values
from orcstream.codec.vectors._vector cimport fit_lengths, merge_masks, ones, pack, rows_within

from orcstream.codec.vectors.column import MAX_VECTOR_BYTES
from orcstream.errors import CorruptStream, Unsupported

# Budgets are cut to what no process has, so that no product of them wraps.
cdef Py_ssize_t MOST_BYTES = (<Py_ssize_t> 1) << 40

cdef enum:
    # Rows in front of the wanted ones are decoded and dropped so many at a time, at least.
    DROPPED_ROWS = 8192


cdef class Turn:
    """One call of a worker: its codec, how large dictionaries may be, and how many streams ran dry.

    A dictionary that was loaded is taken off `dictionary_limit`. Once more than `most_bytes` were decoded, because rows
    are larger than was expected, no column goes on with a further window.
    """

    def __init__(self, Codec codec not None, dictionary_limit=MAX_VECTOR_BYTES, most_bytes=MAX_VECTOR_BYTES):
        self.codec = codec
        self.dictionary_limit = min(dictionary_limit, MOST_BYTES)
        self.bytes_left = min(most_bytes, MOST_BYTES)

    cdef Py_ssize_t values(self, Values stream, Py_ssize_t wanted) except -1 nogil:
        """How many of the `wanted` values are pending; notes the stream when they are not all there."""
        cdef Py_ssize_t got = stream.pend(wanted, self.codec)
        if got < wanted:
            stream.input.is_dry = True
            self.dry += 1
        return got


cdef class Decoded:
    """Memory of rows that were taken of a column and its children, to be made a vector of once."""

    def __cinit__(self, ColumnDecoder decoder not None):
        self.decoder = decoder
        self.parts = <Taken*> calloc(decoder.part_count, sizeof(Taken))
        if self.parts == NULL:
            raise MemoryError
        self.part_count = decoder.part_count

    def __dealloc__(self):
        if self.parts != NULL:
            self.forget()
            free(self.parts)

    cdef void forget(self) noexcept nogil:
        """Give the memory back."""
        cdef int part, block
        for part in range(self.part_count):
            for block in range(4):
                give_block(&self.parts[part].blocks[block])
        self.used = 0

    cdef Taken* next(self) noexcept nogil:
        """The place for one more column of the tree, which has no more than there are places."""
        self.used += 1
        return &self.parts[self.used - 1]

    cdef Py_ssize_t nbytes(self) noexcept nogil:
        """What the rows take; a dictionary of the stripe is not among it."""
        cdef Py_ssize_t total = 0
        cdef int part, block
        for part in range(self.used):
            for block in range(4):
                total += self.parts[part].blocks[block].nbytes
        return total

    def vector(self):
        """The vector of the rows."""
        self.used = 0
        return self.decoder.vector(self)


cdef object buffer_or_none(Block* block):
    return None if block.ptr == NULL else buffer_of(block)


cdef class ColumnDecoder:
    """Decodes one column of one stripe, in row order.

    `row_bytes` is what a row takes when decoded, exactly where `is_fixed`, else at least.
    """

    def __cinit__(self, *_, **__):
        self.row_bytes = 1

    def __init__(self, type_, BoolValues present, values, children=()):
        cdef int index
        self.type = type_
        self.present = present
        self.value_streams = tuple(values)
        self.first = self.value_streams[0] if self.value_streams else None
        self.second = self.value_streams[1] if len(self.value_streams) > 1 else None
        self.children = tuple(children)
        self.child_count = len(self.children)
        self.child_pointers = <PyObject**> malloc(max(1, self.child_count) * sizeof(PyObject*))
        if self.child_pointers == NULL:
            raise MemoryError
        self.part_count = 1
        self.leaf_count = 0
        for index in range(self.child_count):
            self.child_pointers[index] = <PyObject*> self.children[index]
            self.leaf_count += self.child(index).leaf_count
            self.part_count += self.child(index).part_count
        self.leaf_count = max(1, self.leaf_count)

    def __dealloc__(self):
        free(self.child_pointers)
        give_block(&self.merged)

    def streams(self):
        """All input streams of this column and its children."""
        own = [values.input for values in (self.present, *self.value_streams) if values is not None]
        for child in self.children:
            own += child.streams()
        return own

    def ready_rows(self, Py_ssize_t count, Py_ssize_t budget, Turn turn not None):
        """`ready`, for rows that all have a parent."""
        turn.dry = 0
        with nogil:
            count = self.ready(count, NULL, budget, turn)
        return count

    def take_rows(self, Py_ssize_t count):
        """`take`, as a vector."""
        cdef Decoded decoded = Decoded(self)
        with nogil:
            self.take(count, decoded)
        return decoded.vector()

    def held_bytes(self, *, bint trim):
        """Memory for chunks that the streams are in the middle of; lets go of pieces that were read."""
        return self.hold(trim)

    cdef Py_ssize_t hold(self, bint trim) except -1:
        cdef Py_ssize_t total = 0
        cdef int index
        cdef Values values
        if self.present is not None:
            total += self.present.input.hold(trim)
        for values in self.value_streams:
            total += values.input.hold(trim)
        for index in range(self.child_count):
            total += self.child(index).hold(trim)
        return total

    cdef ColumnDecoder child(self, int index):
        return <ColumnDecoder> self.child_pointers[index]

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        """How many of the next `count` rows can be taken; fewer when a stream ran dry or the budget ends.

        `parent` has one byte a row, 0 where the parent is null and this column has no row in the file;
        NULL is all ones. `budget` bounds the decoded bytes.
        """
        with gil:
            raise NotImplementedError

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        """The next `count` rows, at most as many as `ready` answered last."""
        with gil:
            raise NotImplementedError

    cdef object vector(self, Decoded found):
        """The vector of the entry that comes next."""
        raise NotImplementedError

    cdef Py_ssize_t ready_child(
        self, int index, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        """`ready` of a child, with its part of a budget, by its leaves: so it is the same however deep they lie."""
        budget = budget * (<ColumnDecoder> self.child_pointers[index]).leaf_count // self.leaf_count
        return (<ColumnDecoder> self.child_pointers[index]).ready(count, parent, budget, turn)

    cdef int take_child(self, int index, Py_ssize_t count, Decoded out) except -1 nogil:
        return (<ColumnDecoder> self.child_pointers[index]).take(count, out)

    cdef Py_ssize_t see(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        """Rows whose presence is known, within the budget; sets the mask for them."""
        cdef Py_ssize_t wanted, got
        count = min(count, budget // self.row_bytes)
        self.parent = parent
        self.mask = parent
        if self.present is None:
            return count
        wanted = count if parent == NULL else ones(parent, count)
        got = turn.values(self.present, wanted)
        if got < wanted:
            count = got if parent == NULL else rows_within(parent, count, got)
        # It stands there until `end`.
        self.mask = self.present.pending()
        if parent != NULL:
            give_block(&self.merged)
            take_block(&self.merged, count)
            merge_masks(parent, self.mask, self.merged.ptr, count)
            self.mask = self.merged.ptr
        return count

    cdef Py_ssize_t see_values(self, Values stream, Py_ssize_t count, Turn turn) except -1 nogil:
        """Rows, at most `count`, for which the stream has its values."""
        cdef Py_ssize_t wanted = count if self.mask == NULL else ones(self.mask, count)
        cdef Py_ssize_t got = turn.values(stream, wanted)
        if got == wanted:
            return count
        return got if self.mask == NULL else rows_within(self.mask, count, got)

    cdef Py_ssize_t fit(
        self, Values lengths, const uint8_t* mask, Py_ssize_t count, Py_ssize_t limit, Py_ssize_t* total
    ) except -1 nogil:
        """Rows, at most `count`, whose lengths add up to `limit` at most, and to what."""
        cdef Py_ssize_t bad = -1
        cdef Py_ssize_t rows = fit_lengths(
            <const int64_t*> lengths.pending(), lengths.stop - lengths.start, mask, count, limit, total, &bad
        )
        if bad >= 0:
            self.corrupt("a negative length", -1, lengths)
        return rows

    cdef Py_ssize_t begin(self, Py_ssize_t count, Taken* out) except -1 nogil:
        """Begin to take `count` rows: validity and how many are null. Answers how many have values.

        The mask is NULL afterwards where all have.
        """
        cdef Py_ssize_t values = count if self.mask == NULL else ones(self.mask, count)
        out.rows = count
        out.nulls = count - values
        if values == count:
            self.mask = NULL
        else:
            take_block(&out.blocks[0], (count + 7) // 8)
            pack(self.mask, count, out.blocks[0].ptr)
        return values

    cdef int end(self, Py_ssize_t count) except -1 nogil:
        """The presence of `count` rows is done with."""
        if self.present is not None:
            self.present.forget(count if self.parent == NULL else ones(self.parent, count))
        return 0

    cdef int corrupt(self, const char* message, Py_ssize_t row, Values stream) except -1 with gil:
        raise CorruptStream(
            message.decode(),
            column=self.type.column_id,
            stream_kind=stream.input.kind,
            row=None if row < 0 else row,
        )


# --- what workers do -------------------------------------------------------------------------------


cdef class DecodeTask:
    """Some rows of a column to be decoded: `rows` within `budget` bytes, after `rows_to_drop` others within `drop_budget`.

    They follow the rows of a `previous` task; if those were not all there, or the call has decoded enough, nothing is.
    Where a single row needs more, it may have all of `limit`. After `decode`, `row_count` rows are there, none where a
    stream ran dry before the first; `dropped` says how many went before, `size` how many bytes the rows take,
    `dictionary_bytes` how many a dictionary that was loaded, and `seconds` how long it took.
    """

    cdef ColumnDecoder decoder
    cdef Py_ssize_t rows
    cdef Py_ssize_t rows_to_drop
    cdef Py_ssize_t budget
    cdef Py_ssize_t drop_budget
    cdef Py_ssize_t limit
    cdef readonly Py_ssize_t dropped
    cdef readonly Py_ssize_t row_count
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t dictionary_bytes
    cdef readonly double seconds
    cdef object error
    cdef Decoded decoded
    cdef DecodeTask previous

    def __init__(
        self,
        ColumnDecoder decoder not None,
        Py_ssize_t rows,
        budget,
        limit,
        Py_ssize_t rows_to_drop,
        drop_budget,
        DecodeTask previous,
    ):
        self.decoder = decoder
        self.decoded = Decoded(decoder)
        self.rows = rows
        self.budget = min(budget, MOST_BYTES)
        self.limit = min(limit, MOST_BYTES)
        self.rows_to_drop = rows_to_drop
        self.drop_budget = min(drop_budget, MOST_BYTES)
        self.previous = previous

    def vector(self):
        """What was decoded; None where a stream ran dry before the first row. Raises what made it fail."""
        if self.error is not None:
            raise self.error
        return self.decoded.vector() if self.row_count else None

    cdef int run(self, Turn turn, const bint* stop) except -1 nogil:
        cdef Py_ssize_t rows
        if self.previous is not None and (self.previous.row_count < self.previous.rows or turn.bytes_left < 0):
            return 0
        turn.dry = 0
        while self.dropped < self.rows_to_drop:
            rows = min(self.rows_to_drop - self.dropped, max(self.rows, <Py_ssize_t> DROPPED_ROWS))
            rows = self._ready(rows, self.drop_budget, turn)
            if rows == 0 or stop[0]:
                break
            self.decoder.take(rows, self.decoded)
            self.decoded.forget()
            self.dropped += rows
        else:
            rows = self._ready(self.rows, self.budget, turn)
            if rows:
                self.decoder.take(rows, self.decoded)
                self.row_count = rows
                self.size = self.decoded.nbytes()
                turn.bytes_left -= self.size
        return 0

    cdef Py_ssize_t _ready(self, Py_ssize_t rows, Py_ssize_t budget, Turn turn) except -1 nogil:
        """How many of the next `rows` rows can be taken; 0 when a stream ran dry."""
        cdef Py_ssize_t ready = self.decoder.ready(rows, NULL, budget, turn)
        if turn.dry:
            return 0
        if ready == 0:
            # Not even one row fits its share; it may have all that the user allows, in any of its leaves.
            ready = self.decoder.ready(1, NULL, min(MOST_BYTES, self.limit * self.decoder.leaf_count), turn)
            if turn.dry:
                return 0
            if ready == 0:
                self._refuse()
        return ready

    cdef int _refuse(self) except -1 with gil:
        raise Unsupported(
            f"one row decodes to more than {self.limit} bytes; raise memory_limit=",
            reason="row_too_large",
            column=self.decoder.type.column_id,
            row=0,
        )

    cdef int _keep(self) except -1 with gil:
        self.error = raised()
        return 0


cdef int _run(DecodeTask task, Turn turn, const bint* stop) except -1 nogil:
    return task.run(turn, stop)


ctypedef int (*attempt_t)(DecodeTask, Turn, const bint*) noexcept nogil


cdef class Stop:
    """Says to whoever decodes that nobody wants the rest."""

    cdef bint is_set

    def set(self):
        self.is_set = True


cdef class Permits:
    """Lets `count` calls of `decode` work at a time. Others wait for one of them to end, without the interpreter's lock.

    So a thread can prepare a call, and wait for the interpreter's lock to do so, while another one decodes.
    """

    cdef PyThread_type_lock guard
    cdef PyThread_type_lock gate  # open while some are left
    cdef int left

    def __cinit__(self, int count):
        self.left = count
        self.guard = PyThread_allocate_lock()
        self.gate = PyThread_allocate_lock()
        if self.guard == NULL or self.gate == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.guard != NULL:
            PyThread_free_lock(self.guard)
        if self.gate != NULL:
            PyThread_free_lock(self.gate)

    cdef void enter(self) noexcept nogil:
        PyThread_acquire_lock(self.gate, WAIT_LOCK)
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        self.left -= 1
        if self.left:
            PyThread_release_lock(self.gate)
        PyThread_release_lock(self.guard)

    cdef void leave(self) noexcept nogil:
        PyThread_acquire_lock(self.guard, WAIT_LOCK)
        self.left += 1
        if self.left == 1:
            PyThread_release_lock(self.gate)
        PyThread_release_lock(self.guard)


def decode(list tasks, Turn turn not None, Stop stop not None, Permits permits not None):
    """Carry out tasks, one after the other, without the lock; what fails fails for itself.

    Returns when the first one began and the last one ended, by `time.perf_counter`.
    """
    cdef Py_ssize_t index, count = len(tasks), room
    cdef double begun, started, ended
    cdef PyObject** each = <PyObject**> malloc(max(<Py_ssize_t> 1, count) * sizeof(PyObject*))
    cdef DecodeTask task
    if each == NULL:
        raise MemoryError
    for index in range(count):
        task = tasks[index]
        each[index] = <PyObject*> task
    with nogil:
        permits.enter()
        begun = ended = perf_counter()
        for index in range(count):
            if stop.is_set:
                break
            started = ended
            room = turn.dictionary_limit
            if (<attempt_t> _run)(<DecodeTask> each[index], turn, &stop.is_set) < 0:
                (<DecodeTask> each[index])._keep()
            (<DecodeTask> each[index]).dictionary_bytes = room - turn.dictionary_limit
            ended = perf_counter()
            (<DecodeTask> each[index]).seconds = ended - started
        permits.leave()
    free(each)
    return begun, ended
