/* Counts how often each thread takes the interpreter's lock, and for how much of its CPU time it holds it.

   Preloaded into a Python process (LD_PRELOAD). CPython signals one condition when a thread has taken the lock, and
   another when one drops it, whoever asked for that: an extension module, the standard library or the evaluation loop.
   Both conditions lie in `_PyRuntime`, the latter in front of the former. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, PLACES = 1024, DEPTH = 8 };

struct place {
  void *frames[DEPTH];
  long takes;
};

struct thread {
  long id, takes;
  int holds, has_begun;
  double taken_at, held_s, first_s, last_s;
  struct place places[PLACES];
};

static struct thread threads[THREADS];
static atomic_int thread_count, run;
static atomic_int counting, with_places;
static _Thread_local struct thread *mine;
static _Thread_local int mine_of;

static uintptr_t runtime, runtime_end;
static pthread_cond_t *conditions[2];
static int (*signal_condition)(pthread_cond_t *);

__attribute__((constructor)) static void prepare(void) {
  Dl_info found;
  const ElfW(Sym) *symbol = NULL;
  void *frame;
  signal_condition = (int (*)(pthread_cond_t *))dlsym(RTLD_NEXT, "pthread_cond_signal");
  runtime = (uintptr_t)dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime && dladdr1((void *)runtime, &found, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
    runtime_end = runtime + symbol->st_size;
  }
  backtrace(&frame, 1); /* the first call loads a library */
}

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static struct thread *this_thread(void) {
  if (!counting) return NULL;
  if (mine_of != run) {
    int index = thread_count++;
    mine_of = run;
    mine = index < THREADS ? &threads[index] : NULL;
    if (mine) mine->id = syscall(SYS_gettid);
  }
  return mine;
}

static void note_place(struct thread *thread) {
  void *frames[DEPTH] = {0};
  backtrace(frames, DEPTH);
  for (int i = 0; i < PLACES; i++) {
    struct place *place = &thread->places[i];
    if (!place->takes) memcpy(place->frames, frames, sizeof frames);
    if (!memcmp(place->frames, frames, sizeof frames)) {
      place->takes++;
      return;
    }
  }
}

static void note(int has_taken) {
  struct thread *thread = this_thread();
  if (!thread) return;
  double now = cpu_s();
  if (!thread->has_begun) thread->first_s = now;
  thread->has_begun = 1;
  thread->last_s = now;
  if (has_taken) {
    thread->takes++;
    if (with_places) note_place(thread);
    thread->taken_at = cpu_s();
  } else if (thread->holds) {
    thread->held_s += now - thread->taken_at;
  }
  thread->holds = has_taken;
}

int pthread_cond_signal(pthread_cond_t *condition) {
  uintptr_t address = (uintptr_t)condition;
  if (!signal_condition) prepare();
  if (address >= runtime && address < runtime_end) {
    if (!conditions[0]) conditions[0] = condition;
    if (condition != conditions[0]) conditions[1] = condition;
    note(condition > conditions[condition == conditions[0]]);
  }
  return signal_condition(condition);
}

/* The three that Python calls, without the lock: as functions of ctypes.CDLL, which drops it. */

void lock_start(int places) {
  memset(threads, 0, sizeof(struct thread) * (thread_count < THREADS ? thread_count : THREADS));
  thread_count = 0;
  with_places = places;
  run++;
  counting = 1;
}

void lock_stop(void) { counting = 0; }

int lock_report(const char *path) {
  FILE *file = fopen(path, "w");
  if (!file) return 0;
  for (int i = 0; i < thread_count && i < THREADS; i++) {
    struct thread *thread = &threads[i];
    fprintf(file, "thread %ld %ld %.9f %.9f\n", thread->id, thread->takes, thread->held_s,
            thread->last_s - thread->first_s);
    for (struct place *place = thread->places; place < thread->places + PLACES && place->takes; place++) {
      fprintf(file, "place %ld", place->takes);
      for (int depth = 0; depth < DEPTH && place->frames[depth]; depth++) {
        Dl_info found;
        if (!dladdr(place->frames[depth], &found)) continue;
        fprintf(file, " %s:%lx", found.dli_fname, (char *)place->frames[depth] - 1 - (char *)found.dli_fbase);
      }
      fprintf(file, "\n");
    }
  }
  return !fclose(file);
}
