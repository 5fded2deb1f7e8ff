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

// What is said of a group: a number, and one for each row before its first, one for each
// of its rows, and the address of a place if there is one.
struct Form {
  int64_t number = 0, start = 0, each = 0;

  bool read(PyObject* x, const Array& where) {
    long long parts[3];
    Py_ssize_t place;
    if (!PyTuple_Check(x)) return PyErr_BadArgument(), false;
    if (!PyArg_ParseTuple(x, "LLLn", parts, parts + 1, parts + 2, &place)) return false;
    if (place >= static_cast<Py_ssize_t>(where.size)) return PyErr_BadArgument(), false;
    number = parts[0] + (place >= 0 ? where[static_cast<size_t>(place)] : 0);
    start = parts[1];
    each = parts[2];
    return true;
  }
  int64_t at(int64_t first, int64_t rows) const {
    return number + start * first + each * rows;
  }
};

struct Step {
  int64_t turn;
  int64_t record[OWN];
  bool checks;
};

// The words of a Compiled, and the groups that it is for, with the integers of each.
struct Like {
  PyObject* kind;
  Ref own, words;
  int64_t most = 0;
  std::vector<size_t> groups;
  std::vector<PyObject*> numbers;  // kept alive by whom they belong to, as the kind is

  explicit Like(PyObject* kind) : kind(kind) {}
};

class Layout {
 public:
  std::vector<int64_t> words, blocks;
  std::vector<Step> steps;
  int64_t scratch = 0;
  Ref parts;

  Layout(const Array& where, PyObject* functions)
      : parts(PyList_New(0)), where_(where), functions_(functions) {}

  bool move(PyObject* x, const Groups& groups) {
    Py_ssize_t number;
    PyObject *what, *words_, *total_, *grain_;
    int now;
    if (!PyArg_ParseTuple(x, "nOO!OOp", &number, &what, &PyTuple_Type, &words_, &total_,
                          &grain_, &now))
      return false;
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(words_));
    if (count < ADDRESSES || count > WORDS) return PyErr_BadArgument(), false;
    Form forms[WORDS], total;
    for (size_t k = 0; k < count; k++)
      if (!forms[k].read(PyTuple_GET_ITEM(words_, static_cast<Py_ssize_t>(k)), where_))
        return false;
    const Array grains(grain_);  // by the number of rows, or one for all
    const int64_t function = function_of(what);
    if (function < 0 || !total.read(total_, where_) || !grains) return false;
    if (!grains.size) return PyErr_BadArgument(), false;
    for (size_t g = 0; g < groups.turns.size; g++) {
      const int64_t last = static_cast<int64_t>(grains.size) - 1;
      const int64_t rows = std::clamp(groups.counts[g], int64_t{0}, last);
      put(groups, g, function, forms, total, grains[static_cast<size_t>(rows)], now != 0);
    }
    return true;
  }

  // The steps of a body by rows: groups whose numbers of rows are done alike have steps
  // that differ in integers alone.
  bool part(PyObject* x, const Groups& groups) {
    Py_ssize_t number, instance;
    PyObject *rows, *which_, *shifts_, *sizes;
    if (!PyArg_ParseTuple(x, "nOOOO!n", &number, &rows, &which_, &shifts_, &PyTuple_Type,
                          &sizes, &instance))
      return false;
    const Array which(which_), shifts(shifts_);
    if (!which || !shifts) return false;
    if (which.size != shifts.size || !which.are_below(where_.size))
      return PyErr_BadArgument(), false;
    std::vector<int64_t> starts(which.size);
    for (size_t k = 0; k < which.size; k++)
      starts[k] = where_[static_cast<size_t>(which[k])];
    std::vector<Ref> filled;
    std::vector<Like> every;
    if (!find(rows, groups, filled, every)) return false;
    for (Like& like : every) {
      like.own = Ref(PyObject_CallMethod(like.kind, "like", "L",
                                         static_cast<long long>(like.most)));
      if (like.own) like.words = Ref(PyObject_GetAttrString(like.own.get(), "words"));
      if (!like.words || !body(like, groups, starts, shifts, sizes)) return false;
      Ref told(Py_BuildValue("OOn", x, like.own.get(),
                             static_cast<Py_ssize_t>(like.groups.size())));
      if (!told || PyList_Append(parts.get(), told.get()) < 0) return false;
    }
    return true;
  }

  // The places of all steps in the order of turns, and then as they were added.
  std::vector<int64_t> turns() const {
    std::vector<int64_t> order(steps.size());
    for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<int64_t>(k);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return at(a).turn < at(b).turn;
    });
    return order;
  }

  const Step& at(int64_t k) const { return steps[static_cast<size_t>(k)]; }

 private:
  // The address of what moves rows; -1, and something raised, if there is none.
  int64_t function_of(PyObject* what) const {
    PyObject* known = PyDict_GetItemWithError(functions_, what);
    if (!known) return PyErr_Occurred() ? -1 : (PyErr_BadArgument(), -1);
    return number(known);
  }

  // A step of one group that moves rows.
  void put(const Groups& groups, size_t g, int64_t function, const Form* forms,
           const Form& total, int64_t grain, bool now) {
    const int64_t first = groups.starts[g], rows = groups.counts[g];
    const auto place = static_cast<int64_t>(words.size());
    steps.push_back({groups.turns[g], {function, place, total.at(first, rows), grain}, now});
    for (size_t k = 0; k < WORDS; k++) {
      words.push_back(forms[k].at(first, rows));
      blocks.push_back(0);
      if (k < ADDRESSES) split(words.size() - 1);
    }
  }

  // Finds the steps of each number of rows, and which of them are alike.
  static bool find(PyObject* rows, const Groups& groups, std::vector<Ref>& filled,
                   std::vector<Like>& every) {
    Ref known(PyObject_GetAttrString(rows, "known"));
    if (!known || !PyDict_Check(known.get())) return PyErr_BadArgument(), false;
    for (size_t g = 0; g < groups.counts.size; g++) {
      Ref n(PyLong_FromLongLong(groups.counts[g]));
      Ref own = Ref::to(n ? PyDict_GetItemWithError(known.get(), n.get()) : nullptr);
      if (!own && !PyErr_Occurred())
        own = Ref(PyObject_CallMethod(rows, "filled", "O", n.get()));
      if (!own) return false;
      if (!PyTuple_Check(own.get()) || PyTuple_GET_SIZE(own.get()) != 2)
        return PyErr_BadArgument(), false;
      PyObject* mine = PyTuple_GET_ITEM(own.get(), 0);
      size_t at = 0;
      while (at < every.size() && every[at].kind != mine) at++;
      if (at == every.size()) every.emplace_back(mine);
      Like& like = every[at];
      like.most = std::max(like.most, groups.counts[g]);
      like.groups.push_back(g);
      like.numbers.push_back(PyTuple_GET_ITEM(own.get(), 1));
      filled.push_back(std::move(own));
    }
    return true;
  }

  bool body(const Like& like, const Groups& groups, const std::vector<int64_t>& starts,
            const Array& shifts, PyObject* sizes) {
    PyObject *slots_, *fixed_, *passed_, *which_, *copies;
    Py_ssize_t own, table, shift;
    int checks;
    if (!PyArg_ParseTuple(like.words.get(), "(nnn)OOOOpO!", &own, &table, &shift, &slots_,
                          &fixed_, &passed_, &which_, &checks, &PyTuple_Type, &copies))
      return false;
    const Array slots(slots_), fixed(fixed_), passed(passed_), which(which_);
    if (!slots || !fixed || !passed || !which) return false;
    if (own < 0 || table < own || shift < table || own % static_cast<Py_ssize_t>(OWN) ||
        slots.size != fixed.size || slots.size != static_cast<size_t>(shift - table) ||
        passed.size != which.size || !slots.are_below(static_cast<size_t>(table - own)) ||
        !passed.are_below(slots.size) || !which.are_below(starts.size()))
      return PyErr_BadArgument(), false;
    for (size_t i = 0; i < like.groups.size(); i++) {
      const size_t g = like.groups[i];
      const Given mine(like.numbers[i]);
      if (!mine) return false;
      if (mine.size <= static_cast<size_t>(shift)) return PyErr_BadArgument(), false;
      const auto place = words.size();
      for (size_t k = 0; k < static_cast<size_t>(own); k += OWN) {
        const int64_t* r = mine.data + k;
        const int64_t at = r[PLACE] + static_cast<int64_t>(place);
        steps.push_back({groups.turns[g], {r[0], at, r[TOTAL], r[GRAIN]}, checks != 0});
      }
      words.insert(words.end(), mine.data + own, mine.data + table);
      blocks.resize(words.size(), 0);
      for (size_t k = 0; k < slots.size; k++)
        words[place + static_cast<size_t>(slots[k])] =
            mine[static_cast<size_t>(table) + k] + fixed[k];
      for (size_t k = 0; k < passed.size; k++) {
        const auto from = static_cast<size_t>(which[k]);
        words[place + static_cast<size_t>(slots[static_cast<size_t>(passed[k])])] +=
            starts[from] + shifts[from] * groups.starts[g];
      }
      for (size_t k = 0; k < slots.size; k++) split(place + static_cast<size_t>(slots[k]));
      scratch = std::max(scratch, mine[mine.size - 1]);
    }
    return copied(like, groups, starts, shifts, sizes, copies);
  }

  // The results that lie where others do, or constants, copied to where they belong.
  bool copied(const Like& like, const Groups& groups, const std::vector<int64_t>& starts,
              const Array& shifts, PyObject* sizes, PyObject* copies) {
    static PyObject* const copy = PyUnicode_InternFromString("copy");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(copies); i++) {
      Py_ssize_t source, result;
      long long constant;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(copies, i), "nnL", &source, &result, &constant))
        return false;
      const auto count = static_cast<Py_ssize_t>(starts.size());
      if (source >= count || result < 0 || result >= count ||
          result >= PyTuple_GET_SIZE(sizes))
        return PyErr_BadArgument(), false;
      const auto lies = [&](Py_ssize_t k) {
        const auto at = static_cast<size_t>(k);
        return k < 0 ? Form{constant} : Form{starts[at], shifts[at]};
      };
      Form forms[WORDS] = {lies(source), lies(result)};
      const int64_t function = function_of(copy);
      if (function < 0 || !forms[2].read(PyTuple_GET_ITEM(sizes, result), where_))
        return false;
      for (const size_t g : like.groups) put(groups, g, function, forms, Form{1}, 1, false);
    }
    return true;
  }

  // Makes of an address the number of its block, and an offset in that.
  void split(size_t k) {
    blocks[k] = words[k] >> SHIFT;
    words[k] -= blocks[k] * (int64_t{1} << SHIFT);
  }

  const Array& where_;
  PyObject* functions_;
};

// Adds a step for the groups of its number.
bool add(Layout& layout, PyObject* x, const std::vector<Groups>& groups) {
  if (!PyTuple_Check(x) || PyTuple_GET_SIZE(x) < 3) return PyErr_BadArgument(), false;
  const size_t number = PyLong_AsSize_t(PyTuple_GET_ITEM(x, 0));
  if (PyErr_Occurred()) return false;
  if (number >= groups.size()) return PyErr_BadArgument(), false;
  const bool moves = PyTuple_Check(PyTuple_GET_ITEM(x, 2));
  return moves ? layout.move(x, groups[number]) : layout.part(x, groups[number]);
}

PyObject* laid_out(PyObject*, PyObject* args) {
  PyObject *steps_, *groups_, *where_, *offsets_, *blocks_, *functions;
  Py_ssize_t fields;
  if (!PyArg_ParseTuple(args, "OOOOOO!n", &steps_, &groups_, &where_, &offsets_, &blocks_,
                        &PyDict_Type, &functions, &fields))
    return nullptr;
  Ref steps(PySequence_Fast(steps_, "steps")), lists(PySequence_Fast(groups_, "groups"));
  Array where(where_), offsets(offsets_), blocks(blocks_);
  if (!steps || !lists || !where || !offsets || !blocks) return nullptr;
  if (offsets.size != blocks.size || fields < static_cast<Py_ssize_t>(OWN))
    return PyErr_BadArgument(), nullptr;
  std::vector<Groups> groups;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(lists.get()); k++) {
    groups.emplace_back(PySequence_Fast_GET_ITEM(lists.get(), k));
    if (!groups.back().is_sound()) return nullptr;
  }
  Layout all(where, functions);
  if (!all.parts) return nullptr;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(steps.get()); k++)
    if (!add(all, PySequence_Fast_GET_ITEM(steps.get(), k), groups)) return nullptr;
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
  return Py_BuildValue("NNNNnnLN", Numbers(all.words).release(),
                       Numbers(all.blocks).release(), Numbers(records).release(),
                       Numbers(turns).release(), place, sure,
                       static_cast<long long>(all.scratch), all.parts.release());
}

}  // namespace

PyMethodDef step_functions[] = {
    {"laid_out", laid_out, METH_VARARGS,
     "laid_out(steps, groups, where, offsets, blocks, functions, fields): the fields of "
     "StepLayout in turn."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
