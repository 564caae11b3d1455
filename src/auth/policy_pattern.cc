#include "auth/policy_pattern.h"

#include <algorithm>

#include "auth/attributes.h"
#include "auth/principal.h"
#include "base/date.h"

namespace verbena::auth {
namespace {

constexpr std::string_view name_characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_./+=@ ";

bool same(std::string_view a, std::string_view b, Letters letters) {
  if (letters == Letters::exact) return a == b;
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view type_of(const Principal* principal) {
  if (principal == nullptr) return "Anonymous";
  switch (principal->kind) {
    case Principal::Kind::account_root:
      return "Account";
    case Principal::Kind::user:
      return "User";
    case Principal::Kind::assumed_role:
      return "AssumedRole";
    case Principal::Kind::federated:
      return "FederatedUser";
  }
  return "Anonymous";
}

// AWS identifies a session by its role here: arn:aws:sts::ID:assumed-role/NAME/SESSION is arn:aws:iam::ID:role/NAME.
std::string principal_arn(const Principal& principal) {
  constexpr std::string_view infix = ":assumed-role/";
  const size_t at = principal.arn.find(infix);
  if (principal.kind != Principal::Kind::assumed_role || at == std::string::npos) return principal.arn;
  const std::string_view rest = std::string_view(principal.arn).substr(at + infix.size());
  return "arn:aws:iam::" + principal.account->id + ":role/" + std::string(rest.substr(0, rest.find('/')));
}

bool attribute_fact(const Attributes& attributes, std::string_view key, FactValues& values) {
  constexpr std::string_view tag_prefix = "aws:principaltag/";
  if (key.starts_with(tag_prefix)) {
    const auto tag = attributes.tags.find(key.substr(tag_prefix.size()));
    if (tag == attributes.tags.end()) return false;
    values.push_back(tag->second);
    return true;
  }
  if (key == "aws:sourceidentity" && !attributes.source_identity.empty()) {
    values.push_back(attributes.source_identity);
    return true;
  }
  const auto claim = attributes.claims.find(key);
  if (claim == attributes.claims.end()) return false;
  values.insert(values.end(), claim->second.begin(), claim->second.end());
  return true;
}

bool principal_fact(const Principal* principal, std::string_view key, FactValues& values) {
  if (key == "aws:principaltype") {
    values.emplace_back(type_of(principal));
  } else if (key == "aws:userid") {
    values.push_back(principal == nullptr ? std::string("anonymous") : principal->user_id);
  } else if (principal == nullptr) {
    return false;
  } else if (key == "aws:username") {
    if (principal->kind != Principal::Kind::user) return false;
    values.push_back(principal->name);
  } else if (key == "aws:principalarn") {
    values.push_back(principal_arn(*principal));
  } else if (key == "aws:principalaccount") {
    values.push_back(principal->account->id);
  } else if (key == "aws:tokenissuetime") {
    if (!principal->token_issued_s) return false;
    values.push_back(format_iso8601_seconds(*principal->token_issued_s));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string normal_key(std::string_view key) {
  const size_t slash = std::min(key.find('/'), key.size());
  return lower(key.substr(0, slash)) + std::string(key.substr(slash));
}

bool find_fact(const Question& question, std::string_view key, FactValues& values) {
  if (principal_fact(question.principal, key, values)) return true;
  if (question.facts != nullptr && question.facts->find(key, values)) return true;
  // Last: a provider's claims must not override facts of the request.
  const Attributes* const attributes = question.principal == nullptr ? nullptr : question.principal->attributes.get();
  return attributes != nullptr && attribute_fact(*attributes, key, values);
}

void Pattern::add_literal(std::string_view text) {
  if (text.empty()) return;
  if (pieces_.empty() || pieces_.back().kind != Kind::literal) pieces_.emplace_back();
  pieces_.back().text += text;
}

// `inside`: the text between "${" and "}".
bool Pattern::add_variable(std::string_view inside) {
  if (inside == "*" || inside == "?" || inside == "$") {
    add_literal(inside);
    return true;
  }
  Piece piece{.kind = Kind::variable, .text = {}, .alternative = std::nullopt};
  const size_t comma = inside.find(',');
  const std::string_view name = trim(inside.substr(0, comma));
  if (name.empty() || name.find_first_not_of(name_characters) != std::string_view::npos) return false;
  if (comma != std::string_view::npos) {
    const std::string_view quoted = trim(inside.substr(comma + 1));
    if (quoted.size() < 2 || !quoted.starts_with('\'') || !quoted.ends_with('\'')) return false;
    piece.alternative = quoted.substr(1, quoted.size() - 2);
  }
  piece.text = normal_key(name);
  pieces_.push_back(std::move(piece));
  variables_ = true;
  return true;
}

std::optional<Pattern> Pattern::parse(std::string_view text, Syntax syntax) {
  Pattern pattern;
  size_t begin = 0;  // of the current literal
  for (size_t i = 0; i < text.size();) {
    const bool variable = syntax.variables && text.substr(i, 2) == "${";
    const bool wildcard = syntax.wildcards && (text[i] == '*' || text[i] == '?');
    if (!variable && !wildcard) {
      ++i;
      continue;
    }
    pattern.add_literal(text.substr(begin, i - begin));
    if (variable) {
      const size_t end = text.find('}', i);
      if (end == std::string_view::npos || !pattern.add_variable(text.substr(i + 2, end - i - 2))) return std::nullopt;
      i = end + 1;
    } else {
      const Kind kind = text[i] == '*' ? Kind::many : Kind::one;
      const bool repeated = !pattern.pieces_.empty() && pattern.pieces_.back().kind == kind;
      if (!repeated) {
        pattern.pieces_.push_back({.kind = kind, .text = {}, .alternative = std::nullopt});
      } else if (kind == Kind::one) {
        ++pattern.pieces_.back().count;
      }
      ++i;
    }
    begin = i;
  }
  pattern.add_literal(text.substr(begin));
  return pattern;
}

bool Pattern::has_wildcard() const {
  return std::ranges::any_of(pieces_, [](const Piece& p) { return p.kind == Kind::one || p.kind == Kind::many; });
}

// The next possible end of the text that a "*" matches: most are ruled out by the first letter of the next piece.
size_t Pattern::next_end(size_t piece, std::string_view text, size_t from, Inquiry& inquiry, Letters letters) const {
  constexpr size_t letters_at_once = 16;  // examined in one step of a search
  if (letters != Letters::exact || piece >= pieces_.size() || pieces_[piece].kind != Kind::literal) return from;
  const size_t found = std::min(text.find(pieces_[piece].text.front(), from), text.size());
  (void)inquiry.spend((found - from) / letters_at_once);
  return found;
}

// Greedy, with backtracking to the last "*" only, so the cost is bounded by the product of both lengths.
bool Pattern::match_pieces(std::string_view text, Inquiry& inquiry, Letters letters) const {
  size_t piece = 0, at = 0;
  size_t star = std::string_view::npos, star_at = 0;
  while (at < text.size() || piece < pieces_.size()) {
    if (piece < pieces_.size()) {
      const Piece& now = pieces_[piece];
      if (now.kind == Kind::many) {
        if (piece + 1 == pieces_.size()) return true;  // matches the rest
        star = piece++;
        star_at = at;
        continue;
      }
      const size_t length = now.kind == Kind::one ? now.count : now.text.size();
      if (!inquiry.spend(1 + now.text.size())) return false;
      if (text.size() - at >= length && (now.kind == Kind::one || same(text.substr(at, length), now.text, letters))) {
        ++piece;
        at += length;
        continue;
      }
    }
    if (star == std::string_view::npos || star_at >= text.size()) return false;
    piece = star + 1;
    at = star_at = next_end(piece, text, star_at + 1, inquiry, letters);
  }
  return true;
}

// Adds the variable's value for this question. False when it has none.
bool Pattern::fill(const Piece& variable, Inquiry& inquiry) {
  FactValues values;
  if (find_fact(inquiry.question, variable.text, values) && values.size() == 1) {
    if (!inquiry.spend(values.front().size())) return false;
    add_literal(values.front());
  } else if (variable.alternative) {
    add_literal(*variable.alternative);
  } else {
    return false;
  }
  return true;
}

bool Pattern::matches(std::string_view text, Inquiry& inquiry, Letters letters) const {
  if (inquiry.exhausted()) return false;
  if (!variables_) return match_pieces(text, inquiry, letters);
  Pattern filled;
  for (const Piece& piece : pieces_) {
    if (piece.kind == Kind::literal) {
      filled.add_literal(piece.text);
    } else if (piece.kind != Kind::variable) {
      filled.pieces_.push_back(piece);
    } else if (!filled.fill(piece, inquiry)) {
      return false;
    }
  }
  return filled.match_pieces(text, inquiry, letters);
}

}  // namespace verbena::auth
