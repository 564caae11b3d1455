// What the servers share beside buckets: their accounts, and what each needs of the master keys.
#include <cerrno>

#include "base/checksum.h"
#include "store/rados/cluster/attribute.h"
#include "store/rados/cluster/fate.h"
#include "store/rados/engine.h"
#include "store/rados/rows/key_ids.h"

namespace verbena::store::rados {
namespace {

constexpr uint64_t accounts_max = 64 * MiB;
constexpr const char* tokens_attribute = "w";

}  // namespace

Task<Result<void>> Engine::reload_accounts() {
  KeyLocks::Name name(1, "");
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(name)));
  VB_CO_ASSIGN(const auto text, co_await read_accounts());
  if (!on_accounts(text)) co_return fail(Errc::corrupt_object, "rados: accounts");
  co_return Result<void>{};
}

Task<Result<std::optional<std::string>>> Engine::read_accounts() {
  struct Reply {
    Buffer text;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.read(0, accounts_max, &reply->text, &reply->code);
  const int code = co_await cluster->read(Cluster::Pool::index, std::string(accounts_object), std::move(op), reply);
  if (code == -ENOENT) co_return std::nullopt;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: accounts"));
  co_return to_text(reply->text);
}

// Read before the change that adds a token: its comparison with the digest verifies that they are unchanged.
Task<Result<std::string>> Engine::read_account_tokens() {
  auto tokens = co_await read_attribute(*cluster, Cluster::Pool::index, std::string(accounts_object), tokens_attribute,
                                        "rados: accounts");
  if (!tokens && tokens.error() == Errc::not_found) co_return std::string();
  co_return tokens;
}

// Compares the digest of the old text, which is stored beside it.
Task<Result<bool>> Engine::replace_accounts(std::optional<std::string> before, std::string text) {
  if (text.size() > accounts_max) co_return fail(Errc::limit_exceeded, "rados: accounts");
  VB_CO_ASSIGN(const std::string tokens, co_await read_account_tokens());
  const uint64_t token = random_number();
  librados::ObjectWriteOperation op;
  if (before) {
    op.cmpxattr("h", LIBRADOS_CMPXATTR_OP_EQ, to_buffer(sha256(as_bytes(*before))));
  } else {
    op.create(true);
  }
  op.write_full(to_buffer(text));
  op.setxattr("h", to_buffer(sha256(as_bytes(text))));
  op.setxattr(tokens_attribute, to_buffer(with_token(tokens, token)));
  const int code =
      co_await cluster->write(Cluster::Pool::index, std::string(accounts_object), std::move(op), text.size());
  if (code == -ECANCELED || code == -EEXIST) {
    const Fate fate =
        co_await fate_by_attribute(*cluster, std::string(accounts_object), tokens_attribute, token, tokens);
    if (fate == Fate::not_made) co_return false;
    if (fate == Fate::unknown) {
      bus->tell_again(InvalidationBus::accounts);
      co_return fail(Errc::service_unavailable, "The Ceph cluster did not say whether the accounts were changed.");
    }
  } else if (code < 0) {
    bus->tell_again(InvalidationBus::accounts);
    co_return std::unexpected(to_error(code, "rados: accounts"));
  }
  VB_CO_TRY(co_await tell_changed(InvalidationBus::accounts));
  co_return true;
}

// The ids first: with later sealed keys they name no key that is not there.
Task<Result<void>> Engine::reload_keys() {
  if (!on_keys) co_return Result<void>{};
  KeyLocks::Name name(1, "keys");
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(name)));
  VB_CO_ASSIGN(const auto ids, co_await read_keys_row(registry, std::string(key_ids_row)));
  VB_CO_ASSIGN(const auto sealed, co_await read_keys_row(registry, std::string(sealed_keys_row)));
  auto take = [this, ids, sealed] {
    on_keys(ids, sealed);
    return Result<void>{};
  };
  co_return co_await files->run("master_keys", std::move(take));
}

Task<Result<bool>> Engine::replace_keys(std::string_view row, std::optional<std::string> before, std::string text) {
  const auto replaced = co_await replace_keys_row(registry, std::string(row), std::move(before), std::move(text));
  if (!replaced) {  // perhaps it is
    bus->tell_again(InvalidationBus::master_keys);
    co_return replaced;
  }
  if (*replaced) VB_CO_TRY(co_await tell_changed(InvalidationBus::master_keys));
  co_return replaced;
}

// After a change that is made: no other message ever says so, so a failed one is sent again.
Task<Result<void>> Engine::tell_changed(uint64_t what) {
  const auto told = co_await bus->tell(what);
  if (!told) bus->tell_again(what);
  co_return told;
}

}  // namespace verbena::store::rados
