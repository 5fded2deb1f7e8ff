// The extension module treadle.core.native.
#define TREADLE_IMPORTS_ARRAYS
#include "arrays.hpp"

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "treadle.core.native",
    "Nodes, walks, values and calls in C++ (treadle/core/README.md).", -1,
    nullptr, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_native() {
  import_array();
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  for (PyMethodDef* functions : {treadle::node_functions, treadle::walk_functions,
                                 treadle::value_functions, treadle::call_functions,
                                 treadle::row_functions, treadle::look_functions,
                                 treadle::run_functions, treadle::loop_functions,
                                 treadle::size_functions, treadle::assign_functions,
                                 treadle::step_functions, treadle::agenda_functions,
                                 treadle::around_functions})
    if (PyModule_AddFunctions(module, functions) < 0) return nullptr;
  const bool well = treadle::add_result_types() && treadle::add_call_types(module) && treadle::add_run_types(module) &&
                    treadle::add_pool_type(module) && treadle::add_value_types(module);
  return well ? module : nullptr;
}
