// Text with wildcards and policy variables. Internal to auth/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/policy.h"
#include "base/text.h"

namespace verbena::auth {

// The values of a condition key, of the principal or of the request.
bool find_fact(const Question& question, std::string_view key, FactValues& values);

// The evaluation of one question. Patterns, and the header values that they match, come from untrusted callers, and
// greedy matching costs the product of both: so the work is bounded. Once the steps are spent nothing matches, and as a
// denial could have matched, the decision is a denial.
class Inquiry {
 public:
  // A millisecond or two. The largest policies with plain patterns take a twentieth of it.
  static constexpr size_t steps_max = 400'000;
  explicit Inquiry(const Question& asked) : question(asked) {}
  // False when no steps are left.
  bool spend(size_t steps) {
    steps_left_ = steps < steps_left_ ? steps_left_ - steps : 0;
    return !exhausted();
  }
  bool exhausted() const { return steps_left_ == 0; }

  const Question& question;

 private:
  size_t steps_left_ = steps_max;
};

enum class Letters : uint8_t { exact, any_case };

class Pattern {
 public:
  struct Syntax {
    bool wildcards = false;  // * and ?
    bool variables = false;  // ${key}, ${key, 'default'}, ${*}, ${?}, ${$}
  };
  // nullopt for an unterminated variable or an invalid name.
  static std::optional<Pattern> parse(std::string_view text, Syntax syntax);

  // A variable without a value matches nothing.
  bool matches(std::string_view text, Inquiry& inquiry, Letters letters = Letters::exact) const;
  bool has_wildcard() const;
  bool has_variable() const { return variables_; }
  // Whether it has no wildcard and no variable.
  bool fixed() const { return !variables_ && !has_wildcard(); }

 private:
  enum class Kind : uint8_t { literal, one, many, variable };
  struct Piece {
    Kind kind = Kind::literal;
    std::string text;                        // the literal, or the variable's key as in Facts
    std::optional<std::string> alternative;  // a variable's default
    size_t count = 1;                        // consecutive "?"
  };
  bool add_variable(std::string_view inside);
  void add_literal(std::string_view text);
  bool match_pieces(std::string_view text, Inquiry& inquiry, Letters letters) const;
  size_t next_end(size_t piece, std::string_view text, size_t from, Inquiry& inquiry, Letters letters) const;
  bool fill(const Piece& variable, Inquiry& inquiry);

  std::vector<Piece> pieces_;
  bool variables_ = false;
};

// A condition key in the form of Facts: lower case, except after a '/'.
std::string normal_key(std::string_view key);

}  // namespace verbena::auth
