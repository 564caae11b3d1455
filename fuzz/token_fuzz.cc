// The x-amz-rdma-token header, of objects and of calls that describe a queue pair, and x-verbena-rdma-sealing beside
// it: any text parses to a token or an error, and an accepted token survives a round trip.
#include <cstdlib>

#include "fabric/ofi/address.h"
#include "rdma/rc/peer_token.h"
#include "rdma/sealing.h"
#include "rdma/token.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto address = fabric::ofi::decode_socket_name(text);
  if (address && fabric::ofi::decode_socket_name(fabric::ofi::encode_socket_name(*address)) != address) std::abort();
  const auto key = rdma::parse_sealing(text);
  if (key && rdma::format_sealing(*key) != text) std::abort();
  const auto salt = rdma::parse_sealed(text);
  if (salt && rdma::format_sealed(*salt) != text) std::abort();
  if (const auto peer = rdma::rc::parse_peer_token(text)) {
    const auto same = rdma::rc::parse_peer_token(rdma::rc::format_peer_token(*peer));
    if (!same || rdma::rc::format_peer_token(*same) != rdma::rc::format_peer_token(*peer)) std::abort();
  }
  const auto token = rdma::parse_token(text);
  if (!token) return 0;
  if (rdma::redacted(*token).size() > 256) std::abort();
  if (token->form == rdma::TokenForm::cuobject && token->flaw == nullptr) {
    const bool bounded = token->base + token->size >= token->base && token->key <= 0xffffffff &&
                         token->target.number > 1 && token->target.number <= rdma::rc::number_max;
    if (!bounded) std::abort();
  }
  if (token->form != rdma::TokenForm::ofi1 && token->form != rdma::TokenForm::ofi1_sealed) return 0;
  static_cast<void>(fabric::ofi::decode_socket_name(token->endpoint_name));
  const auto again = rdma::parse_token(rdma::format_token(*token));
  if (!again || again->form != token->form || again->base != token->base || again->size != token->size ||
      again->key != token->key || again->endpoint_name != token->endpoint_name || again->provider != token->provider) {
    std::abort();
  }
  return 0;
}
