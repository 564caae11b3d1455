#include "server/sign_in_parts.h"

#include "sign_in/counts.h"

namespace verbena::server {
namespace {

using Opened = std::expected<void, std::string>;

constexpr unsigned sign_in_threads = 2, fetch_threads = 16;  // threads that only wait for providers
constexpr size_t sign_in_queue_max = 256, fetch_queue_max = 16;
constexpr unsigned directory_threads = 8;
constexpr size_t directory_queue_max = 64;

Opened open_web_identity(const Config::SignIn& config, SignInParts& into) {
  if (!config.web_identity) return {};
  auto networks = auth::Networks::parse(config.networks);
  if (!networks) return std::unexpected("sign_in.networks: " + networks.error());
  if (auto sound = sign_in::check_authorities(config.ca_file); !sound) {
    return std::unexpected("sign_in.ca_file: " + config.ca_file + " is not a PEM file of certificates");
  }
  into.fetch_pool = std::make_unique<BlockingPool>(fetch_threads, fetch_queue_max);
  sign_in::HttpsRules rules{.networks = std::move(*networks), .ca_file = config.ca_file};
  auto fetch = [rules = std::move(rules)](const sign_in::Issuer& issuer, const std::atomic<bool>& stop) {
    return sign_in::fetch_keys(issuer, rules, stop);
  };
  const sign_in::ProviderKeys::Limits limits{.fetches_max = fetch_threads};
  into.provider_keys =
      std::make_unique<sign_in::ProviderKeys>(*into.fetch_pool, system_clock(), std::move(fetch), limits);
  return {};
}

Opened open_directory(const Config::SignIn::Ldap& config, SignInParts& into) {
  if (config.url.empty()) return {};
  auto settings = sign_in::read_directory_settings(config);
  if (!settings) return std::unexpected(std::move(settings.error()));
  auto opened = sign_in::Directory::open(std::move(*settings), unset_clock());
  if (!opened) return std::unexpected(std::move(opened.error()));
  into.people = std::move(*opened);
  into.people_pool = std::make_unique<BlockingPool>(directory_threads, directory_queue_max);
  return {};
}

Opened open_authority(const Config::SignIn::Certificates& config, SignInParts& into) {
  if (config.ca_file.empty()) return {};
  auto opened = sign_in::ClientAuthority::open(config);
  if (!opened) return std::unexpected(std::move(opened.error()));
  into.machines = std::move(*opened);
  return {};
}

}  // namespace

std::expected<SignInParts, std::string> SignInParts::open(const Config::SignIn& config,
                                                          auth::IdentityStore& identities) {
  SignInParts out;
  for (const auto& opened :
       {open_web_identity(config, out), open_directory(config.ldap, out), open_authority(config.certificates, out)}) {
    if (!opened) return std::unexpected(opened.error());
  }
  // Trusted by the configuration, not by an account.
  if (out.people) identities.set_voucher("ldap/" + out.people->settings().name, {out.people->settings().tag});
  if (out.machines) {
    out.machines->watch(
        [&identities, name = "certificate/" + out.machines->name()](const sign_in::ClientAuthority::Anchors& anchors) {
          identities.set_voucher(name, anchors);
        });
  }
  if (out.provider_keys || out.people || out.machines) {
    sign_in::sign_ins_counter(sign_in::By::none, true);
    out.pool = std::make_unique<BlockingPool>(sign_in_threads, sign_in_queue_max);
  }
  return out;
}

std::optional<iam::SignInTools> SignInParts::tools() const {
  if (pool == nullptr) return std::nullopt;
  return iam::SignInTools{.pool = *pool,
                          .keys = provider_keys.get(),
                          .directory = people.get(),
                          .directory_pool = people_pool.get(),
                          .authority = machines.get()};
}

void SignInParts::begin_stop() {
  if (provider_keys) provider_keys->stop();
  if (people) people->stop();
}

void SignInParts::stop() {
  fetch_pool.reset();
  people_pool.reset();
  pool.reset();
}

}  // namespace verbena::server
