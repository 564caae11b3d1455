#include "rdma/token.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/bytes.h"
#include "base/hex.h"
#include "rdma/dialect.h"

namespace verbena::rdma {
namespace {

constexpr size_t fields_max = 12;         // cuObject has 7, and some versions append more
constexpr size_t provider_size_max = 64;  // characters
constexpr size_t hipobj_digits = 88;
constexpr size_t connection_digits = 32;
constexpr uint64_t window_size_max = 64 * TiB;  // beyond any object; smaller bounds are the store's

struct Fields {
  std::array<std::string_view, fields_max> at;
  size_t count = 0;  // fields_max + 1: more than that
};

Fields split(std::string_view text) {
  Fields fields;
  for (;;) {
    const auto colon = text.find(':');
    if (fields.count == fields_max) {
      ++fields.count;
      return fields;
    }
    fields.at[fields.count++] = text.substr(0, colon);
    if (colon == std::string_view::npos) return fields;
    text.remove_prefix(colon + 1);
  }
}

// addr:size:rkey:lid:dctn:gid_present:gid, usually of fixed widths (81 characters), some without leading zeros, some
// with further fields.
bool is_cuobject(const Fields& fields) {
  constexpr std::array<size_t, 7> widths = {16, 16, 8, 4, 6, 2, 32};
  if (fields.count < widths.size() || fields.count > fields_max) return false;
  for (size_t i = 0; i < fields.count; ++i) {
    if (fields.at[i].size() > (i < widths.size() ? widths[i] : 32) || !is_hex(fields.at[i])) return false;
  }
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// What programs for cuObject append to a descriptor: the memory's address and size, which must be the descriptor's.
bool is_same_window(const Fields& fields) {
  if (fields.count != 9) return false;
  for (size_t i : {0, 1}) {
    if (parse_hex(fields.at[i]) != parse_hex(fields.at[i + 7])) return false;
  }
  return true;
}

// Null: it can be served. `token` has its numbers.
const char* read_target(const Fields& fields, Token& token) {
  if (fields.count != 7 && !is_same_window(fields))
    return "token: fields behind the descriptor's that are not its window";
  if (token.size > window_size_max) return "token: size";
  if (token.base + token.size < token.base) return "token: base + size overflows";
  if (token.target.number < 2) return "token: its DC target is a port's own queue pair";
  const auto has_gid = parse_hex(fields.at[5]);
  if (*has_gid > 1) return "token: whether it has a GID";
  if (*has_gid == 0) return nullptr;
  std::array<std::byte, 16> gid;
  if (!read_hex(fields.at[6], gid)) return "token: its GID has not 32 digits";
  token.target.gid = gid;
  return nullptr;
}

Token parse_cuobject(const Fields& fields) {
  Token token;
  token.form = TokenForm::cuobject;
  token.provider = "verbs";
  token.base = *parse_hex(fields.at[0]);
  token.size = *parse_hex(fields.at[1]);
  token.key = *parse_hex(fields.at[2]);
  token.target.lid = static_cast<uint16_t>(*parse_hex(fields.at[3]));
  token.target.number = static_cast<uint32_t>(*parse_hex(fields.at[4]));
  token.flaw = read_target(fields, token);
  return token;
}

// Its own name, so that a server which cannot seal declines it.
constexpr std::string_view sealed_dialect = "ofi1s";

// "ofi1", "ofi10", "uet1".
bool is_family(std::string_view text) {
  if (!text.starts_with("ofi") && !text.starts_with("uet")) return false;
  text.remove_prefix(3);
  return !text.empty() && text.size() <= 4 && std::all_of(text.begin(), text.end(), is_digit);
}

// Provider names as fi_info prints them: "tcp", "verbs;ofi_rxm". Whether the provider exists is checked later.
bool is_provider(std::string_view text) {
  return !text.empty() && text.size() <= provider_size_max && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("_-;.+").find(c) != std::string_view::npos;
  });
}

Result<Token> parse_ofi1(const Fields& fields) {
  const auto bad = [](const char* what) { return fail(Errc::invalid_rdma_token, what); };
  const auto base = parse_hex(fields.at[0]);
  const auto size = parse_hex(fields.at[1]);
  if (!base) return bad("token: base");
  if (!size || *size > window_size_max) return bad("token: size");
  if (*base + *size < *base) return bad("token: base + size overflows");
  if (!is_provider(fields.at[3])) return bad("token: provider");
  if (fields.at[4].size() > 2 * endpoint_name_size_max) return bad("token: endpoint name too long");
  const auto name = from_hex(fields.at[4]);
  if (!name || name->empty()) return bad("token: endpoint name");
  if (!is_hex(fields.at[5])) return bad("token: key");
  Token token;
  if (fields.at[5].size() > 16) {
    token.form = TokenForm::ofi1_raw;
    return token;
  }
  token.provider = fields.at[3];
  token.endpoint_name = as_text(*name);
  token.base = *base;
  token.size = *size;
  token.key = *parse_hex(fields.at[5]);
  return token;
}

// Programs written for cuObject append the memory's address and size to any token, as 16 digits each, some with a
// semicolon. The address is the client's own affair; the size must be the token's.
bool has_window_again(const Fields& fields) {
  if (fields.count != 8) return false;
  std::string_view size = fields.at[7];
  if (size.ends_with(';')) size.remove_suffix(1);
  const auto again = parse_hex(size), before = parse_hex(fields.at[1]);
  return parse_hex(fields.at[6]) && again && before && *again == *before;
}

bool is_hipobj(const Fields& fields) {
  return (fields.count == 1 || fields.count == 3) && fields.at[0].size() == hipobj_digits && is_hex(fields.at[0]);
}

std::optional<Token> parse_cuobject_rc(const Fields& fields) {
  if (fields.count != 5 || fields.at[0] != "rc") return std::nullopt;
  if (fields.at[1].size() != connection_digits || !is_lower_hex(fields.at[1])) return std::nullopt;
  const auto base = parse_hex(fields.at[2]), size = parse_hex(fields.at[3]), key = parse_hex(fields.at[4], 8);
  if (!base || !size || !key || *size > window_size_max || *base + *size < *base) return std::nullopt;
  Token token;
  token.form = TokenForm::cuobject_rc;
  token.provider = "verbs";
  token.endpoint_name = fields.at[1];
  token.base = *base;
  token.size = *size;
  token.key = *key;
  return token;
}

}  // namespace

Result<Token> parse_token(std::string_view text) {
  Token token;
  token.form = TokenForm::unknown;
  const Fields fields = split(text.substr(0, token_size_max));
  if (fields.count > 2 && is_family(fields.at[2])) {
    if (fields.at[2] != "ofi1") return token;
    if (text.size() > token_size_max) return fail(Errc::invalid_rdma_token, "token: length");
    if (fields.count != 6 && !has_window_again(fields)) return fail(Errc::invalid_rdma_token, "token: fields of ofi1");
    return parse_ofi1(fields);
  }
  if (fields.count > 2 && fields.at[2] == sealed_dialect) {
    if (text.size() > token_size_max) return fail(Errc::invalid_rdma_token, "token: length");
    if (fields.count != 6) return fail(Errc::invalid_rdma_token, "token: fields of ofi1s");
    VB_ASSIGN(token, parse_ofi1(fields));
    if (token.form != TokenForm::ofi1) return fail(Errc::invalid_rdma_token, "token: key");
    token.form = TokenForm::ofi1_sealed;
    return token;
  }
  if (text.size() > token_size_max) return token;
  if (text.ends_with(';')) text.remove_suffix(1);
  const Fields plain = split(text);
  if (is_cuobject(plain)) return parse_cuobject(plain);
  if (is_hipobj(plain)) {
    token.form = TokenForm::hipobj;
  } else if (auto connected = parse_cuobject_rc(plain)) {
    return std::move(*connected);
  }
  return token;
}

std::string format_token(const Token& token) {
  std::string text;
  append_hex(text, token.base);
  text += ':';
  append_hex(text, token.size);
  text += token.form == TokenForm::ofi1_sealed ? ":ofi1s:" : ":ofi1:";
  text += token.provider;
  text += ':';
  text += to_hex(as_bytes(token.endpoint_name));
  text += ':';
  append_hex(text, token.key);
  return text;
}

std::string redacted(const Token& token) {
  const std::string name(traits_of(token.form).name);
  if (token.form != TokenForm::ofi1 && token.form != TokenForm::ofi1_sealed) return name;
  return name + " provider=" + token.provider + " size=" + std::to_string(token.size);
}

}  // namespace verbena::rdma
