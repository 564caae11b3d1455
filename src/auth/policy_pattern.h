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

enum class Letters : uint8_t { exact, any_case };

class Pattern {
 public:
  struct Syntax {
    bool wildcards = false;  // * and ?
    bool variables = false;  // ${key}, ${key, 'default'}, ${*}, ${?}, ${$}
  };
  // nullopt for a variable that does not end or has no sound name.
  static std::optional<Pattern> parse(std::string_view text, Syntax syntax);

  // A variable without a value matches nothing.
  bool matches(std::string_view text, const Question& question, Letters letters = Letters::exact) const;
  bool has_wildcard() const;
  bool has_variable() const { return variables_; }
  // No wildcard and no variable.
  bool fixed() const { return !variables_ && !has_wildcard(); }

 private:
  enum class Kind : uint8_t { literal, one, many, variable };
  struct Piece {
    Kind kind = Kind::literal;
    std::string text;                        // the literal, or the variable's key as facts name it
    std::optional<std::string> alternative;  // a variable's default
  };
  bool add_variable(std::string_view inside);
  void add_literal(std::string_view text);
  bool match_pieces(std::string_view text, Letters letters) const;

  std::vector<Piece> pieces_;
  bool variables_ = false;
};

// A condition key as Facts name it: lower case, but for what follows a '/'.
std::string normal_key(std::string_view key);

}  // namespace verbena::auth
