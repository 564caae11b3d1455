// A call of the admin API in progress: its members, checked before use. Internal to admin/.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "admin/operator.h"

namespace verbena::admin {

constexpr std::chrono::milliseconds wait_max{10'000};  // for something new

// The checks of this server's machine.
std::shared_ptr<Examination> examination_of(const Operator::Parts& parts, const ServerFacts& facts);

// Counts concurrent operations; this one while it lives.
struct Counted {
  std::atomic<unsigned>& count;
  const unsigned before;
  explicit Counted(std::atomic<unsigned>& c) : count(c), before(c.fetch_add(1)) {}
  ~Counted() { count.fetch_sub(1); }
};

// A call in progress.
struct Operator::Call {
  std::string_view name, who;  // an ARN
  const Json& in;
  std::string& message;

  [[nodiscard]] std::unexpected<Error> refuse(Errc code, std::string text) const {
    message = std::move(text);
    return fail(code, "admin");
  }
  // A missing member counts as empty, 0 or the given default; one of another type is an error.
  Result<std::string> text(const char* member) const {
    const auto found = in.find(member);
    if (found == in.end()) return std::string();
    if (found->is_string() && found->get_ref<const std::string&>().size() <= 1024) return found->get<std::string>();
    return refuse(Errc::validation_error, std::string(member) + " must be a text of at most 1024 bytes.");
  }
  Result<uint64_t> number(const char* member, uint64_t most) const {
    const auto found = in.find(member);
    if (found == in.end()) return 0;
    if (found->is_number_unsigned() && found->get<uint64_t>() <= most) return found->get<uint64_t>();
    return refuse(Errc::validation_error,
                  std::string(member) + " must be a number from 0 to " + std::to_string(most) + ".");
  }
  Result<bool> flag(const char* member, bool otherwise = false) const {
    const auto found = in.find(member);
    if (found == in.end()) return otherwise;
    if (found->is_boolean()) return found->get<bool>();
    return refuse(Errc::validation_error, std::string(member) + " must be true or false.");
  }
  Result<Deadline> wait() const {
    VB_ASSIGN(const uint64_t ms, number("wait_ms", static_cast<uint64_t>(wait_max.count())));
    return deadline_in(std::chrono::milliseconds(ms));
  }
};

}  // namespace verbena::admin
