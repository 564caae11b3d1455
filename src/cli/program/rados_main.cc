// `verbena-rados`: the same program with the engine over Ceph. `verbena` executes it.
#include "cli/rados/engine.h"
#include "cli/run_program.h"

int main(int argc, char** argv) {
  const auto engine = verbena::cli::rados_engine();
  return verbena::cli::run_program(argc, argv, &engine);
}
