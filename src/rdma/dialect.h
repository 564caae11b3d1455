// Dialects of S3 over RDMA: how a client's token becomes a window. docs/dialects.md has the bytes, headers, states and
// errors of each.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "fabric/fabric.h"
#include "rdma/token.h"

namespace verbena::rdma {

// The client of a request, as a dialect checks it.
struct TokenClient {
  std::string_view address;    // of the HTTP peer
  std::string_view owner;      // the principal that signed; empty: anonymous
  std::string_view account{};  // that principal's: its id
};

// One dialect, or several behind one. A window's write() and read() move the bytes; its destructor ends the client's
// part in it.
class Dialect {
 public:
  virtual ~Dialect() = default;

  // Whether tokens of that form are this dialect's. The form alone decides: a refused token of a served form is
  // declined for a reason of its own.
  virtual bool serves(TokenForm form) const = 0;

  // invalid_rdma_token: the token is malformed in what only its dialect can check;
  // rdma_not_supported: another dialect, a provider that is not open here, `shm`, a window that the device does not
  // support, or a peer that is refused: the server's own, a port or address that the configuration does not allow.
  // Runs on the calling core; the window belongs to that core. `token` and what `client` refers to outlive the call.
  virtual Task<Result<std::unique_ptr<fabric::Window>>> open(const Token& token, TokenClient client,
                                                             fabric::Access access) = 0;
};

// The served dialects, by the form of a token.
class Dialects final : public Dialect {
 public:
  // `dialect` outlives this. Before the first request.
  void add(Dialect& dialect) { all_.push_back(&dialect); }
  bool serves(TokenForm form) const override { return find(form) != nullptr; }
  Task<Result<std::unique_ptr<fabric::Window>>> open(const Token& token, TokenClient client,
                                                     fabric::Access access) override;

 private:
  Dialect* find(TokenForm form) const;
  std::vector<Dialect*> all_;
};

// What clients of a form understand when their token is declined.
struct FormTraits {
  std::string_view name;        // in metrics and logs
  const char* unserved;         // x-verbena-rdma-declined where no dialect serves the form
  int declined_put_status;      // clients with cuObject tokens send a body only after a 200
  const char* protocol_status;  // x-amz-rdma-protocol-status; null: no such header
};
const FormTraits& traits_of(TokenForm form);

// verbena_rdma_dialect_tokens_total{dialect,outcome}. All of the series exist after register_dialect_metrics().
void register_dialect_metrics();
void count_moved(TokenForm form);
void count_declined(TokenForm form);
void count_failed(TokenForm form);

}  // namespace verbena::rdma
