#include "events/webhook.h"

#include <atomic>
#include <utility>

#include "events/client_tls.h"
#include "events/complaints.h"
#include "events/network_guard.h"
#include "net/http_client.h"

namespace verbena::events {
namespace {

constexpr size_t answer_head_max = 16 * KiB, answer_bytes_max = 64 * KiB;

const char* kind_of(int status) {
  switch (status / 100) {
    case 3:
      return "webhook: it answers with a redirection (3xx)";
    case 4:
      return "webhook: it refuses (4xx)";
    default:
      return "webhook: it fails (5xx)";
  }
}

class Webhook final : public Target {
 public:
  Webhook(std::unique_ptr<net::HttpClient> client, TargetSettings settings)
      : client_(std::move(client)), settings_(std::move(settings)), complaints_(settings_.name) {}

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    for (const std::string& message : messages) {
      VB_CO_TRY(post(message));
      complaints_.forget();
      ++delivered;
    }
    co_return Result<void>();
  }

  std::string said() const override { return complaints_.said(); }
  void cut() override { cut_ = true; }

 private:
  // The status decides: of the body only so much is read that the connection can be kept.
  Result<void> post(const std::string& message) {
    net::HttpRequest request{.method = "POST",
                             .target = settings_.path,
                             .headers = {{"User-Agent", "verbena"}, {"Content-Type", "application/json"}},
                             .body = as_bytes(message),
                             .collected_body_max = answer_bytes_max,
                             .status_suffices = true,
                             .deadline = deadline_in(settings_.timeout),  // for connection and answer
                             .replayable = true,
                             .stop = cut_,
                             .before_sending = [this] { return may_send(); }};
    if (!settings_.secret.empty()) request.headers.emplace_back("Authorization", "Bearer " + settings_.secret);
    const auto reply = client_->request(request);
    if (!reply && reply.error() == Errc::access_denied) return in_private_network();
    if (!reply) return std::unexpected(reply.error());
    if (reply->status / 100 == 2) return {};
    complaints_.say("status " + std::to_string(reply->status));
    return fail(Errc::invalid_request, kind_of(reply->status));
  }

  const std::unique_ptr<net::HttpClient> client_;
  const TargetSettings settings_;
  Complaints complaints_;
  std::atomic<bool> cut_{false};
};

}  // namespace

std::expected<std::unique_ptr<Target>, std::string> make_webhook(const TargetSettings& settings) {
  if (auto readable = make_target_tls(settings); !readable) return std::unexpected(readable.error());
  net::HttpOptions options{
      .host = settings.host, .port = settings.port, .tls = settings.tls, .ca_file = settings.ca_file};
  options.connect_timeout = options.stall_timeout = settings.timeout;
  options.idle_connections_max = 1;
  options.head_bytes_max = answer_head_max;
  options.allowed = check_of(settings);
  auto client = net::HttpClient::create(std::move(options));
  if (!client) return std::unexpected(describe(client.error()));
  return std::make_unique<Webhook>(std::move(*client), settings);
}

}  // namespace verbena::events
