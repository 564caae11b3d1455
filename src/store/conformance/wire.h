// Network faults for the engine over RADOS, where the test runs with tests/rados/wire.cc preloaded. Messages are
// selected by bytes that they contain: the cluster encrypts nothing.
#pragma once

#include <dlfcn.h>

#include <string>

namespace verbena::store::conformance {

class Wire {
 public:
  static bool is_there() { return dlsym(RTLD_DEFAULT, "verbena_wire_go") != nullptr; }
  // Holds back the first message with these bytes, and everything after it on its connection. The first `pass` such
  // messages get through.
  static void hold(const std::string& bytes, int pass = 0) { function<Arm>("verbena_wire_hold")(bytes.c_str(), pass); }
  // Delivers the first message with these bytes, and drops its answer.
  static void lose(const std::string& bytes, int pass = 0) { function<Arm>("verbena_wire_lose")(bytes.c_str(), pass); }
  static bool caught() { return function<int (*)()>("verbena_wire_caught")() != 0; }
  // Releases held messages, or cuts the connection, so that unanswered messages are sent again.
  static void go() { function<void (*)()>("verbena_wire_go")(); }

 private:
  using Arm = void (*)(const char*, int);
  template <class F>
  static F function(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace verbena::store::conformance
