// main() of `verbena`, and of `verbena-rados`, which is the same with the engine over Ceph.
#pragma once

namespace verbena::cli {

struct RadosEngine;

// A program that was started, as its commands see it.
struct Program {
  const RadosEngine* rados = nullptr;  // null: what needs it is handed over (hand_over.h)
  char** arguments = nullptr;          // all of them, for whoever takes over
};

int run_program(int argc, char** argv, const RadosEngine* rados);

}  // namespace verbena::cli
