// The calls of `verbena admin` on a running server. iam/operate.h authorizes them; server/ makes this. The calls, their
// bodies and answers are in docs/admin.md.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "auth/identity_store.h"
#include "base/blocking.h"
#include "base/clock.h"
#include "base/config.h"
#include "events/deliveries.h"
#include "iam/operate.h"
#include "memory/arena.h"
#include "native/native.h"
#include "observe/request_watch.h"
#include "s3/events/event_queues.h"
#include "store/store.h"

namespace verbena::admin {

// Properties of a started server.
struct ServerFacts {
  std::string version, engine;
  std::filesystem::path data;  // the data directory; empty: everything is in memory
  struct Door {
    std::string name, address;  // "s3", "http://127.0.0.1:9000"; an empty address: off
    std::vector<std::string> providers;
  };
  std::vector<Door> doors;
  unsigned cores = 0;
  std::string disk_io;                          // "io_uring (arena registered)"
  uint64_t hot_capacity = 0;                    // bytes; 0: no hot tier
  std::vector<std::string> fallbacks;           // differences from the configuration, and their reasons
  std::map<std::string, std::string> in_force;  // by key: values that the server has chosen itself
};

struct AuditFilter;
class Examination;

class Operator final : public iam::OperatorCalls {
 public:
  // All of it outlives this.
  struct Parts {
    const Config& config;
    const memory::Arena& arena;
    store::Store& store;
    const WallClock& clock;
    const auth::IdentityStore& identities;
    observe::RequestWatch& watch;
    native::NativeDoor* door;        // null: none
    const s3::EventQueues* events;   // null: no event has a target
    events::Deliveries* deliveries;  // likewise
    BlockingPool& pool;              // for reading files: a thread that no request waits for
    BlockingPool& doctor_pool;       // for examining the machine: a disk that hangs blocks nothing else
    const std::atomic<bool>& stopping;
  };
  Operator(Parts parts, ServerFacts facts);

  std::vector<std::string_view> calls() const override;
  std::string_view right_of(std::string_view call) const override;
  Task<Result<nlohmann::json>> serve(std::string_view call, std::string_view who, const nlohmann::json& in,
                                     std::string& message) override;

 private:
  using Json = nlohmann::json;
  struct Call;
  Task<Result<Json>> info(Call& call);
  Task<Result<Json>> top(Call& call);
  Task<Result<Json>> trace(Call& call);
  Task<Result<Json>> end_watch(Call& call);
  Task<Result<Json>> sessions(Call& call);
  Task<Result<Json>> end_session(Call& call);
  Task<Result<Json>> events(Call& call);
  Task<Result<Json>> skip_event(Call& call);
  Task<Result<Json>> drop_events(Call& call);
  Task<Result<Json>> config(Call& call);
  Task<Result<Json>> logs(Call& call);
  Task<Result<Json>> audit(Call& call);
  Task<Result<Json>> doctor(Call& call);
  Result<observe::RequestWatch::Filter> filter_of(Call& call) const;
  Result<AuditFilter> audit_filter_of(const Call& call) const;
  std::string account_name(std::string_view id) const;
  Task<bool> wait_a_moment(Deadline until);

  const Parts parts_;
  const ServerFacts facts_;
  const int64_t started_us_;
  std::atomic<unsigned> waiting_{0}, searching_{0};
  const std::shared_ptr<Examination> examination_;
};

}  // namespace verbena::admin
