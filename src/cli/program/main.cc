// The `verbena` program: server and command line in one.
#include "cli/run_program.h"

int main(int argc, char** argv) { return verbena::cli::run_program(argc, argv, nullptr); }
