// Error messages of commands: one line that names the subject, then a hint what to do.
#pragma once

#include <string>
#include <string_view>

#include "cli/exit_code.h"
#include "verbena/client.h"

namespace verbena::cli {

// "verbena: s3://b/k: no such key" and a hint, if there is one. Returns the error's exit code.
ExitCode report(std::string_view subject, const ClientError& error);
// `problem` is printed as it is.
ExitCode report(std::string_view subject, std::string_view problem, ExitCode code);
// A hint for an error; empty for none.
std::string hint_for(const ClientError& error);
// The failures of a run over many objects, which goes on after one of them with the next object. For use by one thread
// at a time.
class RunFailures {
 public:
  void succeeded() {
    any_succeeded_ = true;
    in_a_row_ = 0;
  }
  // Whether the run is to end, since the next object would fail likewise: the server is gone or takes none of these
  // credentials, several calls in a row were not answered, or the run's first ones were all denied.
  bool ended_by(const ClientError& error);

 private:
  static constexpr unsigned unanswered_max = 3, denied_max = 10;
  enum class Kind : uint8_t { other, unanswered, denied };
  Kind kind_ = Kind::other;  // of the last failures
  unsigned in_a_row_ = 0;
  bool any_succeeded_ = false;
};
// With --verbose, on standard error: "s3://b/k: 12 MiB by native (local), 2 attempts".
void tell_transfer(std::string_view subject, const Transfer& transfer);

}  // namespace verbena::cli
