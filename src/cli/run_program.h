// main() of `verbena`, and of `verbena-rados`, which is the same with the engine over Ceph.
#pragma once

namespace verbena::cli {

struct RadosEngine;

// The started program, for its commands.
struct Program {
  const RadosEngine* rados = nullptr;  // null: commands that need it execute verbena-rados (exec_rados.h)
  char** arguments = nullptr;          // all of them, to be passed on
};

int run_program(int argc, char** argv, const RadosEngine* rados);

}  // namespace verbena::cli
