// The steps of rows laid out: engines/native/forest/layout.py.
#include "arrays.hpp"

namespace treadle {
namespace {

constexpr size_t OWN = 4, PLACE = 1, TOTAL = 2, GRAIN = 3;  // of a record
constexpr size_t WORDS = 4, ADDRESSES = 2;                  // of a step that moves rows
constexpr int SHIFT = 48;  // of a block's number in an address (forest/bases.py)

// An array of numbers that lie one after the other: that which was given, or a copy.
struct Array {
  Ref object;
  const int64_t* data = nullptr;
  size_t size = 0;

  explicit Array(PyObject* x)
      : object(PyArray_FROM_OTF(x, NPY_INT64, NPY_ARRAY_IN_ARRAY)) {
    if (!object) return;
    data = static_cast<const int64_t*>(PyArray_DATA(array_of(object.get())));
    size = static_cast<size_t>(PyArray_SIZE(array_of(object.get())));
  }
  explicit operator bool() const { return bool(object); }
  int64_t operator[](size_t k) const { return data[k]; }
  bool are_below(size_t count) const {
    return std::all_of(data, data + size, [&](int64_t x) {
      return x >= 0 && x < static_cast<int64_t>(count);
    });
  }
};

// The turns, the first rows and the numbers of rows of groups.
struct Groups {
  Array turns, starts, counts;

  explicit Groups(PyObject* x)
      : turns(item(x, 0)), starts(item(x, 1)), counts(item(x, 2)) {}
  bool is_sound() const {
    if (!turns || !starts || !counts) return false;
    return (turns.size == starts.size && turns.size == counts.size) ||
           (PyErr_SetString(PyExc_ValueError, "a number for each group"), false);
  }

 private:
  static PyObject* item(PyObject* x, Py_ssize_t k) {
    return PyTuple_Check(x) && PyTuple_GET_SIZE(x) == 3 ? PyTuple_GET_ITEM(x, k) : Py_None;
  }
};

// What is said of a group: a number, or one for its first row, one for each row before
// that, and one for each of its rows.
struct Form {
  int64_t parts[3] = {0, 0, 0};

  bool read(PyObject* x) {
    const bool single = !PyTuple_Check(x);
    const Py_ssize_t size = single ? 1 : PyTuple_GET_SIZE(x);
    if (size < 1 || size > 3) return PyErr_BadArgument(), false;
    for (Py_ssize_t k = 0; k < size; k++) {
      Ref whole(PyNumber_Index(single ? x : PyTuple_GET_ITEM(x, k)));
      parts[k] = whole ? number(whole.get()) : -1;
      if (parts[k] == -1 && PyErr_Occurred()) return false;
    }
    return true;
  }
  int64_t at(const Groups& groups, size_t g) const {
    return parts[0] + parts[1] * groups.starts[g] + parts[2] * groups.counts[g];
  }
};

struct Step {
  int64_t turn, number;
  int64_t record[OWN];
  bool checks;
};

class Layout {
 public:
  std::vector<int64_t> words, blocks;
  std::vector<Step> steps;
  int64_t scratch = 0;

  bool move(PyObject* x) {
    PyObject *groups_, *words_, *total_, *grain_;
    long long function, number;
    int now;
    if (!PyArg_ParseTuple(x, "OO!LOOLp", &groups_, &PyTuple_Type, &words_, &function,
                          &total_, &grain_, &number, &now))
      return false;
    const Groups groups(groups_);
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(words_));
    if (!groups.is_sound()) return false;
    if (count < ADDRESSES || count > WORDS) return PyErr_BadArgument(), false;
    Form forms[WORDS], total;
    for (size_t k = 0; k < count; k++)
      if (!forms[k].read(PyTuple_GET_ITEM(words_, static_cast<Py_ssize_t>(k))))
        return false;
    const Array grains(grain_);  // by the number of rows, or one for all
    if (!total.read(total_) || !grains) return false;
    if (!grains.size) return PyErr_BadArgument(), false;
    for (size_t g = 0; g < groups.turns.size; g++) {
      const auto place = static_cast<int64_t>(words.size());
      const int64_t last = static_cast<int64_t>(grains.size) - 1;
      const int64_t rows = std::clamp(groups.counts[g], int64_t{0}, last);
      const int64_t grain = grains[static_cast<size_t>(rows)];
      steps.push_back({groups.turns[g],
                       number,
                       {function, place, total.at(groups, g), grain},
                       now != 0});
      for (size_t k = 0; k < WORDS; k++) {
        words.push_back(forms[k].at(groups, g));
        blocks.push_back(0);
        if (k < ADDRESSES) split(words.size() - 1);
      }
    }
    return true;
  }

  bool body(PyObject* x) {
    PyObject *groups_, *numbers_, *starts_, *shifts_, *slots_, *fixed_, *given_, *which_;
    Py_ssize_t own, table, shift;
    long long number;
    int checks;
    if (!PyArg_ParseTuple(x, "OOOO(nnn)OOOOLp", &groups_, &numbers_, &starts_, &shifts_,
                          &own, &table, &shift, &slots_, &fixed_, &given_, &which_,
                          &number, &checks))
      return false;
    const Groups every(groups_);
    Array starts(starts_), shifts(shifts_), slots(slots_), fixed(fixed_), given(given_),
        which(which_);
    Ref numbers(PySequence_Fast(numbers_, "numbers for each group"));
    if (!every.is_sound() || !starts || !shifts || !slots || !fixed || !given || !which ||
        !numbers)
      return false;
    const size_t groups = every.turns.size, size = static_cast<size_t>(table - own);
    if (PySequence_Fast_GET_SIZE(numbers.get()) != static_cast<Py_ssize_t>(groups) ||
        own < 0 || table < own || shift < table || own % static_cast<Py_ssize_t>(OWN) ||
        slots.size != fixed.size || slots.size != static_cast<size_t>(shift - table) ||
        given.size != which.size || !slots.are_below(size) ||
        !given.are_below(slots.size) || !which.are_below(starts.size) ||
        starts.size != shifts.size)
      return PyErr_BadArgument(), false;
    for (size_t g = 0; g < groups; g++) {
      Given mine(PySequence_Fast_GET_ITEM(numbers.get(), static_cast<Py_ssize_t>(g)));
      if (!mine) return false;
      if (mine.size <= static_cast<size_t>(shift)) return PyErr_BadArgument(), false;
      const auto place = words.size();
      for (size_t k = 0; k < static_cast<size_t>(own); k += OWN) {
        const int64_t* r = mine.data + k;
        const int64_t at = r[PLACE] + static_cast<int64_t>(place);
        steps.push_back(
            {every.turns[g], number, {r[0], at, r[TOTAL], r[GRAIN]}, checks != 0});
      }
      words.insert(words.end(), mine.data + own, mine.data + table);
      blocks.resize(words.size(), 0);
      for (size_t k = 0; k < slots.size; k++)
        words[place + static_cast<size_t>(slots[k])] =
            mine[static_cast<size_t>(table) + k] + fixed[k];
      for (size_t k = 0; k < given.size; k++) {
        const auto from = static_cast<size_t>(which[k]);
        words[place + static_cast<size_t>(slots[static_cast<size_t>(given[k])])] +=
            starts[from] + shifts[from] * every.starts[g];
      }
      for (size_t k = 0; k < slots.size; k++) split(place + static_cast<size_t>(slots[k]));
      scratch = std::max(scratch, mine[mine.size - 1]);
    }
    return true;
  }

  // The places of all steps in the order of turns, and then as they were added.
  std::vector<int64_t> turns() const {
    std::vector<int64_t> order(steps.size());
    for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<int64_t>(k);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const Step &x = at(a), &y = at(b);
      return x.turn != y.turn ? x.turn < y.turn : x.number < y.number;
    });
    return order;
  }

  const Step& at(int64_t k) const { return steps[static_cast<size_t>(k)]; }

 private:
  // Makes of an address the number of its block, and an offset in that.
  void split(size_t k) {
    blocks[k] = words[k] >> SHIFT;
    words[k] -= blocks[k] * (int64_t{1} << SHIFT);
  }
};

PyObject* laid_out(PyObject*, PyObject* args) {
  PyObject *moves_, *bodies_, *offsets_, *blocks_;
  Py_ssize_t fields;
  if (!PyArg_ParseTuple(args, "OOOOn", &moves_, &bodies_, &offsets_, &blocks_, &fields))
    return nullptr;
  Ref moves(PySequence_Fast(moves_, "moves")), bodies(PySequence_Fast(bodies_, "bodies"));
  Array offsets(offsets_), blocks(blocks_);
  if (!moves || !bodies || !offsets || !blocks) return nullptr;
  if (offsets.size != blocks.size || fields < static_cast<Py_ssize_t>(OWN))
    return PyErr_BadArgument(), nullptr;
  Layout all;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(moves.get()); k++)
    if (!all.move(PySequence_Fast_GET_ITEM(moves.get(), k))) return nullptr;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(bodies.get()); k++)
    if (!all.body(PySequence_Fast_GET_ITEM(bodies.get(), k))) return nullptr;
  const auto place = static_cast<Py_ssize_t>(all.words.size());
  all.words.insert(all.words.end(), offsets.data, offsets.data + offsets.size);
  all.blocks.insert(all.blocks.end(), blocks.data, blocks.data + blocks.size);
  all.words.push_back(0);
  all.blocks.push_back(0);
  const std::vector<int64_t> turns = all.turns();
  std::vector<int64_t> records(turns.size() * static_cast<size_t>(fields));
  Py_ssize_t sure = 0;
  for (size_t k = 0; k < turns.size(); k++) {
    const Step& step = all.at(turns[k]);
    std::copy(step.record, step.record + OWN,
              records.begin() + static_cast<Py_ssize_t>(k) * fields);
    if (step.checks) sure = static_cast<Py_ssize_t>(k) + 1;
  }
  return Py_BuildValue("NNNNnnL", Numbers(all.words).release(),
                       Numbers(all.blocks).release(), Numbers(records).release(),
                       Numbers(turns).release(), place, sure,
                       static_cast<long long>(all.scratch));
}

}  // namespace

PyMethodDef step_functions[] = {
    {"laid_out", laid_out, METH_VARARGS,
     "laid_out(moves, bodies, offsets, blocks, fields): the fields of Layout in turn."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
