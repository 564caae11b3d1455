#include "events/client_tls.h"

#include <boost/asio/ip/address.hpp>

namespace verbena::events {
namespace {

int host_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

bool is_address(const std::string& host) {
  boost::system::error_code no_address;
  boost::asio::ip::make_address(host, no_address);
  return !no_address;
}

// Libraries have asked for the address by now, which is no name: this is called before their first message is made.
void ask_for_host(const SSL* ssl, int where, int) {
  if ((where & SSL_CB_HANDSHAKE_START) == 0) return;
  const auto* host = static_cast<const std::string*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), host_index()));
  SSL_set_tlsext_host_name(const_cast<SSL*>(ssl), is_address(*host) ? nullptr : const_cast<char*>(host->c_str()));
}

}  // namespace

std::expected<void, std::string> trust_authorities(SSL_CTX* tls, const std::string& ca_file) {
  SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, nullptr);
  const int read = ca_file.empty() ? SSL_CTX_set_default_verify_paths(tls)
                                   : SSL_CTX_load_verify_locations(tls, ca_file.c_str(), nullptr);
  if (read != 1) return std::unexpected("events.ca_file: the certificates cannot be read");
  return {};
}

void expect_host(SSL_CTX* tls, const std::string& host) {
  X509_VERIFY_PARAM* wanted = SSL_CTX_get0_param(tls);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
  }
  SSL_CTX_set_ex_data(tls, host_index(), const_cast<std::string*>(&host));
  SSL_CTX_set_info_callback(tls, ask_for_host);
}

std::expected<boost::asio::ssl::context, std::string> make_client_tls(const TargetSettings& settings) {
  boost::asio::ssl::context tls(boost::asio::ssl::context::tls_client);
  if (auto trusted = trust_authorities(tls.native_handle(), settings.ca_file); !trusted) {
    return std::unexpected(trusted.error());
  }
  return tls;
}

}  // namespace verbena::events
