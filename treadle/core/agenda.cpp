// The order of groups of rows: batch/agenda.py.
#include "arrays.hpp"

namespace treadle {
namespace {

// The units of a kind, and what each reads, a row a unit.
struct Kind {
  Given units;
  Ref read;
  const int64_t* values = nullptr;
  size_t width = 0;
  bool often, heavy;

  Kind(PyObject* units, PyObject* read_, bool often, bool heavy)
      : units(units), read(PyArray_FROM_OTF(read_, NPY_INT64, NPY_ARRAY_IN_ARRAY)),
        often(often), heavy(heavy) {
    if (!read) return;
    PyArrayObject* array = array_of(read.get());
    values = static_cast<const int64_t*>(PyArray_DATA(array));
    width = PyArray_NDIM(array) == 2 ? static_cast<size_t>(PyArray_DIM(array, 1)) : 0;
  }
  bool is_sound(size_t count, size_t made) const {
    if (!units || !read) return false;
    bool sound = PyArray_SIZE(array_of(read.get())) ==
                 static_cast<npy_intp>(units.size * width);
    for (size_t k = 0; sound && k < units.size; k++)
      sound = units[k] >= 0 && units[k] < static_cast<int64_t>(count);
    for (size_t k = 0; sound && k < units.size * width; k++)
      sound = values[k] < static_cast<int64_t>(made);
    return sound || (PyErr_BadArgument(), false);
  }
};

// Units of one kind at one depth, which are done at once.
struct Class {
  int64_t kind, depth, count = 0, waits = 0, step = 0;
  std::vector<size_t> readers;
};

class Agenda {
 public:
  Agenda(const Given& depths, const Given& makers, const std::vector<Kind>& kinds)
      : depths_(depths), makers_(makers), kinds_(kinds), class_of_(depths.size),
        kept(depths.size), row_steps(depths.size) {}

  void run() {
    classify();
    connect();
    order();
    for (size_t u = 0; u < depths_.size; u++) row_steps[u] = classes_[class_of_[u]].step;
    choose();
  }

 private:
  size_t maker(int64_t value) const {
    return static_cast<size_t>(makers_[static_cast<size_t>(value)]);
  }

  // Calls f(reader, maker) for each value of a unit that a unit reads.
  template <typename F>
  void each_edge(F f) const {
    for (const Kind& kind : kinds_)
      for (size_t k = 0; k < kind.units.size * kind.width; k++)
        if (kind.values[k] >= 0)
          f(static_cast<size_t>(kind.units[k / kind.width]), maker(kind.values[k]));
  }

  void classify() {
    int64_t span = 1;
    for (size_t u = 0; u < depths_.size; u++) span = std::max(span, depths_[u] + 1);
    std::vector<int64_t> codes(depths_.size), different;
    for (size_t number = 0; number < kinds_.size(); number++)
      for (size_t k = 0; k < kinds_[number].units.size; k++) {
        const auto u = static_cast<size_t>(kinds_[number].units[k]);
        codes[u] = static_cast<int64_t>(number) * span + depths_[u];
      }
    different = codes;
    std::sort(different.begin(), different.end());
    different.erase(std::unique(different.begin(), different.end()), different.end());
    for (int64_t code : different) {
      Class one{};
      one.kind = code / span;
      one.depth = code % span;
      classes_.push_back(one);
    }
    for (size_t u = 0; u < codes.size(); u++) {
      const auto at = std::lower_bound(different.begin(), different.end(), codes[u]);
      class_of_[u] = static_cast<size_t>(at - different.begin());
      classes_[class_of_[u]].count++;
    }
  }

  void connect() {
    std::vector<std::pair<size_t, size_t>> edges;
    each_edge([&](size_t reader, size_t made) {
      edges.emplace_back(class_of_[made], class_of_[reader]);
    });
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (const auto& [read, reader] : edges) {
      classes_[read].readers.push_back(reader);
      classes_[reader].waits++;
    }
  }

  void order() {
    std::vector<int64_t> left(kinds_.size()), depth(kinds_.size());
    std::vector<std::vector<size_t>> ready(kinds_.size());
    for (size_t c = 0; c < classes_.size(); c++) {
      const Class& one = classes_[c];
      const auto kind = static_cast<size_t>(one.kind);
      left[kind] += one.count;
      depth[kind] += one.count * one.depth;
      if (!one.waits) ready[kind].push_back(c);
    }
    for (int64_t step = 0;; step++) {
      size_t chosen = kinds_.size();
      double lowest = 0;
      for (size_t k = 0; k < kinds_.size(); k++) {
        if (ready[k].empty()) continue;
        const double mean = static_cast<double>(depth[k]) / static_cast<double>(left[k]);
        if (chosen == kinds_.size() || mean < lowest) {
          chosen = k;
          lowest = mean;
        }
      }
      if (chosen == kinds_.size()) return;
      for (size_t c : std::exchange(ready[chosen], {})) {
        Class& one = classes_[c];
        one.step = step;
        left[chosen] -= one.count;
        depth[chosen] -= one.count * one.depth;
        for (size_t reader : one.readers)
          if (!--classes_[reader].waits)
            ready[static_cast<size_t>(classes_[reader].kind)].push_back(reader);
      }
    }
  }

  // Notes which units are rows.
  void choose() {
    // All classes of one step are of one kind: it has that many groups.
    std::vector<int64_t> sizes(classes_.size() + 1), units(kinds_.size()),
        groups(kinds_.size()), largest(kinds_.size());
    for (const Class& one : classes_) {
      int64_t& size = sizes[static_cast<size_t>(one.step)];
      const auto kind = static_cast<size_t>(one.kind);
      groups[kind] += !size;
      size += one.count;
      units[kind] += one.count;
      largest[kind] = std::max(largest[kind], size);
    }
    for (size_t u = 0; u < kept.size(); u++) {
      const auto kind = static_cast<size_t>(classes_[class_of_[u]].kind);
      const bool pays = kinds_[kind].heavy || units[kind] > 2 * groups[kind];
      kept[u] = kinds_[kind].often || (pays && largest[kind] > 1);
    }
    std::vector<std::pair<size_t, size_t>> edges;
    each_edge([&](size_t reader, size_t made) {
      if (!kept[made]) edges.emplace_back(reader, made);
    });
    std::stable_sort(edges.begin(), edges.end(), [&](const auto& a, const auto& b) {
      return row_steps[a.first] > row_steps[b.first];
    });
    for (const auto& [reader, made] : edges) kept[made] = kept[made] || kept[reader];
  }

  const Given& depths_;
  const Given& makers_;
  const std::vector<Kind>& kinds_;
  std::vector<size_t> class_of_;
  std::vector<Class> classes_;

 public:
  std::vector<npy_bool> kept;
  std::vector<int64_t> row_steps;  // of each unit

  // The rows of a kind: the fields of KindRows, None if it has none.
  PyObject* rows(const Kind& kind) const {
    std::vector<int64_t> places, steps, starts, counts;
    for (size_t k = 0; k < kind.units.size; k++)
      if (kept[static_cast<size_t>(kind.units[k])])
        places.push_back(static_cast<int64_t>(k));
    if (places.empty()) Py_RETURN_NONE;
    const auto step = [&](int64_t k) {
      return row_steps[static_cast<size_t>(kind.units[static_cast<size_t>(k)])];
    };
    std::stable_sort(places.begin(), places.end(),
                     [&](int64_t a, int64_t b) { return step(a) < step(b); });
    std::vector<npy_bool> early(kind.width, 1);
    for (size_t k = 0; k < places.size(); k++) {
      if (!k || step(places[k]) != steps.back()) {
        steps.push_back(step(places[k]));
        starts.push_back(static_cast<int64_t>(k));
        counts.push_back(0);
      }
      counts.back()++;
      const int64_t* read = kind.values + static_cast<size_t>(places[k]) * kind.width;
      for (size_t j = 0; j < kind.width; j++)
        if (read[j] >= 0 && row_steps[maker(read[j])] >= steps.front()) early[j] = 0;
    }
    return Py_BuildValue("NNNNN", Numbers(places).release(), Numbers(steps).release(),
                         Numbers(starts).release(), Numbers(counts).release(),
                         Marks(early).release());
  }
};

// Whether an array has so many marks.
bool has_marks(PyObject* x, Py_ssize_t count) {
  return PyArray_TYPE(array_of(x)) == NPY_BOOL && PyArray_IS_C_CONTIGUOUS(array_of(x)) &&
         PyArray_SIZE(array_of(x)) == count;
}

PyObject* scheduled(PyObject*, PyObject* args) {
  PyObject *depths_, *makers_, *units_, *read_, *often_, *heavy_;
  if (!PyArg_ParseTuple(args, "OOO!O!O!O!", &depths_, &makers_, &PyList_Type, &units_,
                        &PyList_Type, &read_, &PyArray_Type, &often_, &PyArray_Type,
                        &heavy_))
    return nullptr;
  Given depths(depths_), makers(makers_);
  const Py_ssize_t count = PyList_GET_SIZE(units_);
  if (!depths || !makers) return nullptr;
  if (PyList_GET_SIZE(read_) != count || !has_marks(often_, count) ||
      !has_marks(heavy_, count))
    return PyErr_BadArgument(), nullptr;
  bool sound = true;
  for (size_t k = 0; sound && k < depths.size; k++) sound = depths[k] >= 0;
  for (size_t k = 0; sound && k < makers.size; k++)
    sound = makers[k] >= 0 && makers[k] < static_cast<int64_t>(depths.size);
  if (!sound) return PyErr_BadArgument(), nullptr;
  const auto* often = static_cast<const npy_bool*>(PyArray_DATA(array_of(often_)));
  const auto* heavy = static_cast<const npy_bool*>(PyArray_DATA(array_of(heavy_)));
  std::vector<Kind> kinds;
  for (Py_ssize_t k = 0; k < count; k++) {
    kinds.emplace_back(PyList_GET_ITEM(units_, k), PyList_GET_ITEM(read_, k), often[k],
                       heavy[k]);
    if (!kinds.back().is_sound(depths.size, makers.size)) return nullptr;
  }
  Agenda agenda(depths, makers, kinds);
  agenda.run();
  Ref rows(PyList_New(0));
  if (!rows) return nullptr;
  for (const Kind& kind : kinds) {
    Ref one(agenda.rows(kind));
    if (!one || PyList_Append(rows.get(), one.get()) < 0) return nullptr;
  }
  return Py_BuildValue("NNN", Numbers(agenda.row_steps).release(),
                       Marks(agenda.kept).release(), rows.release());
}

}  // namespace

PyMethodDef agenda_functions[] = {
    {"scheduled", scheduled, METH_VARARGS,
     "scheduled(depths, makers, units, read, often, heavy): as batch/agenda.py."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
