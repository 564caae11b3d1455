#include "call/request_times.h"

#include <string>

namespace verbena::call {
namespace {

constexpr std::array<const char*, 3> doors{"http", "token", "native"};
constexpr std::array<const char*, 9> verb_names{"get",  "put",        "head",        "append", "delete",
                                                "list", "read_batch", "write_batch", "other"};
constexpr std::array<const char*, 5> size_names{"4KiB", "64KiB", "1MiB", "16MiB", "more"};

metrics::Histogram& histogram(Door door, size_t verb, const char* size) {
  return metrics::histogram("verbena_request_duration_seconds",
                            "From a request's head or message to the end of its answer",
                            {{"door", doors[static_cast<size_t>(door)]}, {"verb", verb_names[verb]}, {"size", size}});
}

}  // namespace

RequestTimes::RequestTimes(Door door) {
  for (size_t verb = 0; verb < sized; ++verb) {
    for (size_t size = 0; size < size_classes; ++size) by_size_[verb][size] = &histogram(door, verb, size_names[size]);
  }
  for (size_t verb = sized; verb < verbs; ++verb) of_verb_[verb - sized] = &histogram(door, verb, "any");
}

Verb verb_of(std::string_view action) {
  if (action == "GET object") return Verb::get;
  if (action == "PUT object" || action == "PUT object?uploadId" || action == "POST bucket") return Verb::put;
  if (action == "HEAD object") return Verb::head;
  if (action == "DELETE object") return Verb::remove;
  if (action == "GET bucket?list-type" || action == "GET bucket" || action == "GET bucket?versions") return Verb::list;
  if (action == "POST bucket?delete") return Verb::write_batch;
  return Verb::other;
}

}  // namespace verbena::call
