#include "cli/client_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/aws_profile.h"
#include "cli/report.h"
#include "client/without_keys.h"

namespace verbena::cli {

namespace {

constexpr const char* group = "Server";

}  // namespace

void ClientFlags::add_to(CLI::App& command) {
  add_server_to(command);
  command.add_option("--via", via, "path of the bytes: auto, native, token or http")
      ->check(CLI::IsMember({"auto", "native", "token", "http"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--provider", provider, "fabric: auto, local, verbs, tcp, efa or cxi")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--cleartext-rdma", cleartext_rdma,
                "auto with an https endpoint: allow RDMA between hosts, and tcp without encryption")
      ->group(group);
  command
      .add_option("--encryption", encryption,
                  "of RDMA: off, preferred, required (then nothing travels unencrypted between hosts), or auto: "
                  "preferred with an https endpoint, else off")
      ->check(CLI::IsMember({"auto", "off", "preferred", "required"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--attempts", attempts,
                  "attempts at one operation, up to 2 s apart; enough of them outlast a restart of the server")
      ->check(CLI::Range(1u, 10'000u))
      ->capture_default_str()
      ->group(group);
  command.add_flag("-v,--verbose", verbose, "print what carried the bytes");
  command.add_flag("-q,--quiet", quiet, "no progress bar and no messages but errors");
  command.footer(
      "Keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the profile.\n\n" +
      std::string(exit_code_help));
}

void ClientFlags::add_server_to(CLI::App& command) {
  command
      .add_option("--endpoint", endpoint, "S3 endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; http://127.0.0.1:9000)")
      ->type_name("URL")
      ->group(group);
  command
      .add_option("--native", native,
                  "native door (VERBENA_NATIVE, unless --endpoint is given; the endpoint's host and port 9100)")
      ->type_name("HOST:PORT")
      ->group(group);
  command.add_option("--region", region, "for signing (AWS_REGION, AWS_DEFAULT_REGION; us-east-1)")->group(group);
  command.add_option("--profile", profile, "in ~/.aws/credentials and ~/.aws/config (AWS_PROFILE)")->group(group);
  command.add_option("--ca-file", ca_file, "PEM file of the authorities to trust, for https")->group(group);
  command.add_flag("--insecure", insecure, "https without checking the server's certificate")->group(group);
  command.add_flag("--anonymous", anonymous, "do not sign requests")->group(group);
}

std::optional<ClientOptions> ClientFlags::options() const {
  const AwsSettings aws = aws_settings(profile);
  ClientOptions out;
  if (!aws.endpoint.empty()) out.endpoint = aws.endpoint;
  if (!endpoint.empty()) out.endpoint = endpoint;
  const char* const native_of_environment = std::getenv("VERBENA_NATIVE");
  out.native_endpoint = native;
  // Another endpoint's native door is elsewhere.
  if (native.empty() && endpoint.empty() && native_of_environment != nullptr) {
    out.native_endpoint = native_of_environment;
  }
  if (!aws.region.empty()) out.region = aws.region;
  if (!region.empty()) out.region = region;
  out.via = parse_via(via).value_or(Via::automatic);
  out.provider = provider;
  out.attempts_max = attempts;
  out.ca_file = ca_file;
  out.insecure = insecure;
  out.cleartext_rdma = cleartext_rdma;
  out.encryption = encryption;
  if (anonymous) return out;
  if (aws.access_key.empty() || aws.secret_key.empty()) {
    report("no keys",
           "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (`verbena server` shows them at its first start), name a "
           "--profile, or use --anonymous",
           exit_usage);
    return std::nullopt;
  }
  out.access_key = aws.access_key;
  out.secret_key = aws.secret_key;
  out.session_token = aws.session_token;
  return out;
}

std::optional<Client> ClientFlags::connect(int& exit_code) const {
  auto made = options();
  if (!made) {
    exit_code = exit_usage;
    return std::nullopt;
  }
  const std::string where = client::without_keys(made->endpoint);
  auto client = Client::connect(std::move(*made));
  if (!client) {
    exit_code = report(where, client.error());
    return std::nullopt;
  }
  return std::move(*client);
}

}  // namespace verbena::cli
