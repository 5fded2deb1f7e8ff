// Threads that run the steps of programs (pool.cpp).
#pragma once

#include "objects.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace treadle {

// Some items of a step; `memory` is the number of its scratch memory.
using Step = void (*)(const int64_t* arguments, int64_t begin, int64_t end, int64_t memory);

class Control;

// An integer that kernels write, as one that other threads may read meanwhile.
inline std::atomic<int64_t>& shared(int64_t* x) {
  static_assert(sizeof(std::atomic<int64_t>) == sizeof(int64_t), "one word");
  return *reinterpret_cast<std::atomic<int64_t>*>(x);
}

// A step of a program. One with a `control` is a branch or loop, whose bodies are records
// of their own. A record with neither begins a region: its arguments are where its chains
// begin among the records that follow, and where the last one ends, `total` is how many
// chains there are, `inner` how many records. A chain is run by one thread.
struct Record {
  Step step;
  int64_t arguments;  // where they begin in the table
  int64_t total;      // items
  int64_t grain;      // items that are worth a part
  int64_t inner;
  const Control* control;
  int64_t unused[2];
};
static_assert(sizeof(Record) == 64, "as engines/native/execution/layout.py has them");

// A run of records in order. `times` is null, or how many times are noted, for how many
// there is room, then four integers each: record, worker, begin and end in ns.
struct Run {
  const Record* records;
  int64_t count;
  const int64_t* table;
  int64_t* status;  // other than 0 once a step has found its data wrong
  int64_t* times;
};

// The watch for interrupts of a run whose caller has let go of Python's lock.
class Watch {
 public:
  // Whether nothing has interrupted the run, which is asked now and then.
  bool goes_on();
  // Raises what has interrupted the run; the lock is held again.
  bool raise();

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  uint64_t count_ = 0;
  bool interrupted_ = false;
  PyObject *kind_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

class Pool;

// Who runs records: a thread, helped by the workers of a pool where it has `leased` them.
struct Runner {
  Pool& pool;
  bool leased;
  Watch* watch;  // or null

  // How many records were run, the one that found its data wrong too.
  int64_t run(const Run& given) const;
  // Has each worker take its share of something long; an interrupt sets the status.
  void share(Step step, const int64_t* arguments, int64_t parts, int64_t* status) const;
};

// A branch or loop. Its arguments are the addresses of what it reads and writes, of the
// memory of its bodies, of scratch memory, and of the status.
class Control {
 public:
  virtual ~Control() = default;
  // It stops where a step or an interrupt has set the status.
  virtual void run(const int64_t* arguments, const Runner& runner) const = 0;
};

// Workers, and a caller that they help. What different threads write stands on different
// cache lines.
class Pool {
 public:
  static constexpr int64_t room = 8;    // runs in the queue at most
  static constexpr int64_t parts = 64;  // of a step for each thread, whatever its grain

  // Runs records; how many, the one that found its data wrong too. While one caller has
  // the workers, others run their steps by themselves.
  int64_t run(const Run& given, Watch* watch = nullptr);

  // Has a run done beside the caller; there is room for it, and one caller at a time.
  void queue(const Run& given);
  // Helps until so many of all runs ever queued are over; one caller at a time.
  void wait(int64_t until);
  int64_t queued() const { return queued_.load(); }
  int64_t over() const { return over_.load(); }
  std::atomic<int64_t> failed{0};  // the status of the queued run that failed, or 0

  // The life of a worker, which ends when it is told to leave.
  void work(int64_t worker);
  void leave();
  std::atomic<int64_t> threads{1};  // the caller and its workers

 private:
  friend struct Runner;
  using Clock = std::chrono::steady_clock;

  // A step that is shared: written while no part is unclaimed or unfinished, and read
  // only after a claim, so a late worker never sees a mixture of two.
  struct Shared {
    Step step;
    const int64_t* arguments;
    int64_t total, items, parts, number;
    int64_t* times;
  };

  void share(Step step, const int64_t* arguments, int64_t total, int64_t grain, int64_t number,
             int64_t* times, Watch* watch = nullptr, int64_t* status = nullptr);
  void region(const Record* record, const Run& given, int64_t number, bool shared);
  uint32_t claim();
  void do_part(uint32_t left, int64_t worker);
  bool waiting(int64_t until) const;
  bool serve(uint32_t owner, int64_t until);
  uint32_t number() const { return static_cast<uint32_t>(parts_.load() >> 32); }
  void rouse(int64_t count);
  void sleep(uint32_t seen);

  // Parts of the step that nobody has claimed, and above them a number that each step
  // and each run that is queued raises: a claim is for the step it was meant for.
  alignas(64) std::atomic<uint64_t> parts_{0};
  alignas(64) std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> leave_{false};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) Shared shared_{};
  alignas(64) std::atomic<bool> busy_{false};  // a run is using the workers
  alignas(64) std::atomic<int64_t> queued_{0};
  std::atomic<uint32_t> owner_{0};    // 1 and the number of who goes through the queue
  std::atomic<bool> helped_{false};  // somebody helps in the place of that worker
  alignas(64) std::atomic<int64_t> over_{0};
  std::array<Run, room> runs_{};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// The pool of an object that Python has; null where it is none, and something is raised.
Pool* pool_of(PyObject* x);

}  // namespace treadle
