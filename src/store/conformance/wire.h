// What a network does to the calls of the engine over RADOS, where the starter of the test has loaded
// tests/rados/wire.cc. Messages go by bytes that are in them: the cluster encrypts nothing.
#pragma once

#include <dlfcn.h>

#include <string>

namespace verbena::store::conformance {

class Wire {
 public:
  static bool is_there() { return dlsym(RTLD_DEFAULT, "verbena_wire_go") != nullptr; }
  // The first message with these bytes, and all that follows on its connection, does not get through. `pass`: so many
  // of them do.
  static void hold(const std::string& bytes, int pass = 0) { function<Arm>("verbena_wire_hold")(bytes.c_str(), pass); }
  // The first message with these bytes gets through, and its answer does not.
  static void lose(const std::string& bytes, int pass = 0) { function<Arm>("verbena_wire_lose")(bytes.c_str(), pass); }
  static bool caught() { return function<int (*)()>("verbena_wire_caught")() != 0; }
  // What was held arrives; or the connection is cut, so that what was not answered is sent again.
  static void go() { function<void (*)()>("verbena_wire_go")(); }

 private:
  using Arm = void (*)(const char*, int);
  template <class F>
  static F function(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace verbena::store::conformance
