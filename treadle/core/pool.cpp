// The pool: one caller and workers run the steps of programs, which are shared by parts.
//
// Workers spin for some tens of microseconds, or a millisecond where work came as soon
// before, then sleep. A step is published by one store; whoever is awake claims parts of
// it, and it is over when all its parts are: a worker that sleeps on costs nothing, and
// one that is gone cannot make a run hang.
#include "pool.hpp"

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#ifdef _WIN32
#include <process.h>
#define getpid _getpid
#else
#include <csignal>
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace treadle {
namespace {

constexpr int patience = 1000;  // pauses of a caller before it offers its core
constexpr auto briefly = std::chrono::microseconds(80);  // a worker waits before it sleeps,
constexpr auto longer = std::chrono::microseconds(1200);  // or so, if it was woken as soon
constexpr auto seldom = std::chrono::milliseconds(50);  // that an interrupt may wait
constexpr int64_t every = INT64_MAX;

void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits a little for others, who may have the core after a while.
void pause(int& turns) {
  if (turns++ < patience)
    pause();
  else
    std::this_thread::yield();
}

int64_t now() {  // as Python's time.perf_counter_ns
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

// Does something for a step, and notes when, where that is asked for.
template <typename F>
void noted(int64_t* times, int64_t number, int64_t worker, F run) {
  if (!times) return run();
  const int64_t first = now();
  run();
  const int64_t last = now();
  const int64_t k = shared(times).fetch_add(1, std::memory_order_relaxed);
  if (k >= times[1]) return;
  const int64_t entry[] = {number, worker, first, last};
  std::copy(entry, entry + 4, times + 2 + 4 * k);
}

// Calls a step for some items.
void call(int64_t* times, int64_t number, Step step, const int64_t* arguments, int64_t begin,
          int64_t end, int64_t memory, int64_t worker) {
  noted(times, number, worker, [&] { step(arguments, begin, end, memory); });
}

// Goes through a branch or loop.
void go_through(int64_t* times, int64_t number, const Control& control,
                const int64_t* arguments, const Runner& runner, int64_t worker) {
  noted(times, number, worker, [&] { control.run(arguments, runner); });
}

// What chains of a region are given in the place of arguments.
struct Region {
  Pool* pool;
  const Record* records;
  const int64_t *starts, *table;
  int64_t *status, *times;
  int64_t number;  // of the first record
};

void run_chains(const int64_t* arguments, int64_t begin, int64_t end, int64_t worker) {
  const Region& own = *reinterpret_cast<const Region*>(arguments);
  for (int64_t chain = begin; chain < end; chain++)
    for (int64_t k = own.starts[chain]; k < own.starts[chain + 1]; k++) {
      // Another chain may have found its data wrong.
      if (shared(own.status).load(std::memory_order_relaxed)) return;
      const Record& x = own.records[k];
      if (x.control)
        go_through(own.times, own.number + k, *x.control, own.table + x.arguments,
                   {*own.pool, false, nullptr}, worker);
      else if (x.total > 0)  // scratch memory is the step's alone
        call(own.times, own.number + k, x.step, own.table + x.arguments, 0, x.total, 0, worker);
    }
}

}  // namespace

// -- steps ------------------------------------------------------------------------------

// Claims a part: how many were unclaimed before, 0 if there was none.
uint32_t Pool::claim() {
  uint64_t state = parts_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(state))
    if (parts_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      return static_cast<uint32_t>(state);
  return 0;
}

// Does the part that was claimed when so many were left.
void Pool::do_part(uint32_t left, int64_t worker) {
  const Shared& own = shared_;
  const int64_t begin = (own.parts - left) * own.items;
  const int64_t end = std::min(own.total, begin + own.items);
  call(own.times, own.number, own.step, own.arguments, begin, end, worker, worker);
  done_.fetch_add(1, std::memory_order_release);
}

void Pool::share(Step step, const int64_t* arguments, int64_t total, int64_t grain,
                 int64_t number, int64_t* times, Watch* watch, int64_t* status) {
  const int64_t most = threads.load(std::memory_order_relaxed) * parts;
  const int64_t items = grain * (((total - 1) / grain) / most + 1);
  const int64_t count = (total - 1) / items + 1;
  shared_ = {step, arguments, total, items, count, number, times};
  done_.store(0, std::memory_order_relaxed);
  // No part is unclaimed: the number goes up by one, and the parts are there.
  parts_.fetch_add(static_cast<uint64_t>(count) + (uint64_t{1} << 32));
  rouse(count - 1);
  while (const uint32_t left = claim()) do_part(left, 0);
  for (int turns = 0; done_.load(std::memory_order_acquire) != count;) {
    pause(turns);
    if (watch && !watch->goes_on()) shared(status).store(1, std::memory_order_relaxed);
  }
}

void Pool::region(const Record* record, const Run& given, int64_t number, bool shared) {
  const Region own{this, record + 1, given.table + record->arguments, given.table, given.status,
                   given.times, number + 1};
  const auto* arguments = reinterpret_cast<const int64_t*>(&own);
  if (shared)
    share(run_chains, arguments, record->total, 1, number, nullptr);
  else
    run_chains(arguments, 0, record->total, 0);
}

int64_t Runner::run(const Run& given) const {
  int64_t k = 0;
  while (k < given.count) {
    const Record& x = given.records[k];
    const int64_t* arguments = given.table + x.arguments;
    if (x.control)
      go_through(given.times, k, *x.control, arguments, *this, 0);
    else if (x.inner)
      pool.region(&x, given, k, leased);
    else if (leased && 0 < x.grain && x.grain < x.total)
      pool.share(x.step, arguments, x.total, x.grain, k, given.times);
    else if (x.total > 0)
      call(given.times, k, x.step, arguments, 0, x.total, 0, 0);
    k += 1 + x.inner;
    if (shared(given.status).load(std::memory_order_relaxed)) break;
  }
  return k;
}

void Runner::share(Step step, const int64_t* arguments, int64_t parts, int64_t* status) const {
  const int64_t each = (parts - 1) / pool.threads.load(std::memory_order_relaxed) + 1;
  pool.share(step, arguments, parts, each, 0, nullptr, watch, status);
}

int64_t Pool::run(const Run& given, Watch* watch) {
  bool free = false;
  const bool leased = threads.load(std::memory_order_relaxed) > 1 &&
                      busy_.compare_exchange_strong(free, true, std::memory_order_acquire);
  const int64_t count = Runner{*this, leased, watch}.run(given);
  if (leased) busy_.store(false, std::memory_order_release);
  return count;
}

// -- interrupts -------------------------------------------------------------------------

bool Watch::goes_on() {
  if ((++count_ & 15) || std::chrono::steady_clock::now() - last_ < seldom)
    return !interrupted_;
  const PyGILState_STATE state = PyGILState_Ensure();
  interrupted_ = PyErr_CheckSignals() < 0;
  if (interrupted_) PyErr_Fetch(&kind_, &value_, &trace_);
  PyGILState_Release(state);
  last_ = std::chrono::steady_clock::now();
  return !interrupted_;
}

bool Watch::raise() {
  if (interrupted_) PyErr_Restore(kind_, value_, trace_);
  return interrupted_;
}

// -- workers ----------------------------------------------------------------------------

// Wakes workers, after the number has changed; none falls asleep that has not seen it.
void Pool::rouse(int64_t count) {
  if (!asleep_.load()) return;
  { std::lock_guard<std::mutex> held(mutex_); }
  if (count < threads.load(std::memory_order_relaxed) - 1)
    for (; count > 0; count--) wake_.notify_one();
  else
    wake_.notify_all();
}

// Until the number is no longer the one that was seen.
void Pool::sleep(uint32_t seen) {
  asleep_.fetch_add(1);
  {
    std::unique_lock<std::mutex> held(mutex_);
    wake_.wait(held, [&] { return number() != seen; });
  }
  asleep_.fetch_sub(1);
}

void Pool::leave() {
  leave_.store(true);
  parts_.fetch_add(uint64_t{1} << 32);
  rouse(every);
}

void Pool::work(int64_t worker) {
  Clock::duration limit = briefly;
  Clock::time_point since{};
  bool idle = false;  // since then
  for (;;) {
    const uint64_t state = parts_.load(std::memory_order_acquire);
    if (static_cast<uint32_t>(state)) {
      if (const uint32_t left = claim()) {
        do_part(left, worker);
        idle = false;
      }
      continue;
    }
    if (waiting(every) && serve(static_cast<uint32_t>(worker + 1), every)) {
      // Whoever stands in this worker's place may be about to claim a part.
      while (helped_.load()) pause();
      idle = false;
      continue;
    }
    if (leave_.load(std::memory_order_acquire)) return;
    const Clock::time_point at = Clock::now();
    if (!idle) since = at;
    idle = true;
    if (at - since < limit) {
      pause();
      if (at - since > briefly) std::this_thread::yield();
      continue;
    }
    sleep(static_cast<uint32_t>(state >> 32));
    limit = Clock::now() - since < longer ? longer : briefly;
    idle = false;
  }
}

// -- the queue --------------------------------------------------------------------------

bool Pool::waiting(int64_t until) const {
  const int64_t over = over_.load();
  return over < std::min(queued_.load(), until);
}

// Goes through the queue as `owner`, to the run of a number, unless somebody does; whether
// it did. After a run that fails the others are left out.
bool Pool::serve(uint32_t owner, int64_t until) {
  uint32_t nobody = 0;
  if (!owner_.compare_exchange_strong(nobody, owner)) return false;
  while (waiting(until)) {
    const int64_t number = over_.load(std::memory_order_relaxed);
    const Run& own = runs_[static_cast<size_t>(number % room)];
    if (!failed.load(std::memory_order_relaxed)) {
      run(own);
      failed.store(*own.status, std::memory_order_relaxed);
    }
    over_.store(number + 1);
  }
  owner_.store(0);
  return true;
}

void Pool::queue(const Run& given) {
  const int64_t number = queued_.load(std::memory_order_relaxed);
  runs_[static_cast<size_t>(number % room)] = given;
  queued_.store(number + 1);
  parts_.fetch_add(uint64_t{1} << 32);  // none falls asleep now
  rouse(1);
}

void Pool::wait(int64_t until) {
  helped_.store(true);
  for (int turns = 0; waiting(until);) {
    const uint32_t owner = owner_.load();
    if (!owner) {
      helped_.store(false);
      serve(1, until);
      helped_.store(true);
      turns = 0;
    } else if (const uint32_t left = claim()) {
      do_part(left, owner - 1);
      turns = 0;
    } else {
      pause(turns);
    }
  }
  helped_.store(false);
  if (waiting(every)) {  // workers may have gone to sleep meanwhile
    parts_.fetch_add(uint64_t{1} << 32);
    rouse(1);
  }
}

// -- as Python has it -------------------------------------------------------------------

namespace {

// What an object has: the pool, which workers hold as well, and these.
struct Workers {
  std::shared_ptr<Pool> pool = std::make_shared<Pool>();
  std::vector<std::thread> threads;
  const int process = static_cast<int>(getpid());

  // As many as the system allows; signals are for Python's threads.
  void start(int64_t count) {
#ifndef _WIN32
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
    try {
      for (int64_t k = 1; k < count; k++) {
        threads.emplace_back([own = pool, k] { own->work(k); });
        pool->threads.fetch_add(1);
      }
    } catch (const std::system_error&) {
    }
#ifndef _WIN32
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
  }

  // Workers leave, and are gone when this returns.
  void close() {
    pool->leave();
    for (std::thread& x : threads) x.join();
    threads.clear();
  }
};

struct PoolObject {
  PyObject_HEAD
  Workers* workers;
};
PyTypeObject* pool_type;

Workers& workers_of(PyObject* self) { return *reinterpret_cast<PoolObject*>(self)->workers; }

void free_pool(PyObject* self) {
  Workers* own = reinterpret_cast<PoolObject*>(self)->workers;
  if (own && own->process == static_cast<int>(getpid())) {
    own->pool->leave();
    for (std::thread& x : own->threads) x.detach();
    delete own;
  }  // else it is a fork's, whose threads are not here
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* new_pool(PyTypeObject* type, PyObject* args, PyObject*) {
  long long count;
  if (!PyArg_ParseTuple(args, "L", &count)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  auto own = std::make_unique<Workers>();
  own->start(count);
  reinterpret_cast<PoolObject*>(self)->workers = own.release();
  return self;
}

// Addresses of records, how many, of the table, of the status, and of times or 0.
bool read(PyObject* const* args, Py_ssize_t given, Run& run) {
  if (given != 4 && given != 5) return PyErr_BadArgument(), false;
  run.records = static_cast<Record*>(PyLong_AsVoidPtr(args[0]));
  run.count = number(args[1]);
  run.table = static_cast<int64_t*>(PyLong_AsVoidPtr(args[2]));
  run.status = static_cast<int64_t*>(PyLong_AsVoidPtr(args[3]));
  run.times = given > 4 ? static_cast<int64_t*>(PyLong_AsVoidPtr(args[4])) : nullptr;
  return !PyErr_Occurred();
}

PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t given) {
  Run own;
  if (!read(args, given, own)) return nullptr;
  Pool& pool = *workers_of(self).pool;
  Watch watch;
  int64_t ran;
  Py_BEGIN_ALLOW_THREADS
  ran = pool.run(own, &watch);
  Py_END_ALLOW_THREADS
  return watch.raise() ? nullptr : PyLong_FromLongLong(ran);
}

PyObject* run_brief(PyObject* self, PyObject* const* args, Py_ssize_t given) {
  Run own;
  if (!read(args, given, own)) return nullptr;
  return PyLong_FromLongLong(workers_of(self).pool->run(own));
}

PyObject* queue(PyObject* self, PyObject* const* args, Py_ssize_t given) {
  Run own;
  if (given != 4 || !read(args, given, own)) return PyErr_BadArgument(), nullptr;
  workers_of(self).pool->queue(own);
  Py_RETURN_NONE;
}

PyObject* wait(PyObject* self, PyObject* until) {
  const long long end = number(until);
  if (PyErr_Occurred()) return nullptr;
  Pool& pool = *workers_of(self).pool;
  Py_BEGIN_ALLOW_THREADS
  pool.wait(end);
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

PyObject* close(PyObject* self, PyObject*) {
  Workers& own = workers_of(self);
  Py_BEGIN_ALLOW_THREADS
  own.close();
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

PyObject* get_workers(PyObject* self, void*) {
  return PyLong_FromLongLong(workers_of(self).pool->threads.load() - 1);
}

PyObject* get_queued(PyObject* self, void*) {
  return PyLong_FromLongLong(workers_of(self).pool->queued());
}

PyObject* get_over(PyObject* self, void*) {
  return PyLong_FromLongLong(workers_of(self).pool->over());
}

PyObject* get_failed(PyObject* self, void*) {
  return PyLong_FromLongLong(workers_of(self).pool->failed.load());
}

int set_failed(PyObject* self, PyObject* value, void*) {
  const long long status = value ? number(value) : 0;
  if (PyErr_Occurred()) return -1;
  workers_of(self).pool->failed.store(status);
  return 0;
}

template <typename F>
PyCFunction method(F function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef pool_methods[] = {
    {"run", method(run), METH_FASTCALL,
     "run(records, count, table, status, times=0): how many records were run."},
    {"run_brief", method(run_brief), METH_FASTCALL, "run, which keeps Python's lock."},
    {"queue", method(queue), METH_FASTCALL, "queue(records, count, table, status)"},
    {"wait", wait, METH_O, "wait(number): until so many queued runs are over."},
    {"close", close, METH_NOARGS, "close(): workers leave, and are gone."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef pool_fields[] = {
    {"workers", get_workers, nullptr, "How many there are.", nullptr},
    {"queued", get_queued, nullptr, "Runs ever queued.", nullptr},
    {"over", get_over, nullptr, "Those that are over.", nullptr},
    {"failed", get_failed, set_failed, "The status of one that failed, or 0.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot pool_slots[] = {
    {Py_tp_doc, const_cast<char*>("Pool(threads): a caller and workers that run steps.")},
    {Py_tp_new, reinterpret_cast<void*>(new_pool)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_pool)},
    {Py_tp_methods, pool_methods},
    {Py_tp_getset, pool_fields},
    {0, nullptr}};
PyType_Spec pool_spec = {"treadle.core.native.Pool", sizeof(PoolObject), 0,
                         Py_TPFLAGS_DEFAULT, pool_slots};

}  // namespace

Pool* pool_of(PyObject* x) {
  if (Py_TYPE(x) != pool_type) return PyErr_BadArgument(), nullptr;
  return workers_of(x).pool.get();
}

bool add_pool_type(PyObject* module) {
  pool_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&pool_spec));
  return pool_type && PyModule_AddType(module, pool_type) == 0 &&
         PyModule_AddIntConstant(module, "POOL_PARTS", Pool::parts) == 0 &&
         PyModule_AddIntConstant(module, "POOL_ROOM", Pool::room) == 0;
}

}  // namespace treadle
