// The client's wish for encrypted RDMA.
#pragma once

#include "verbena/client.h"

namespace verbena::client {

enum class RdmaEncryption { off, preferred, required };

// From ClientOptions::encryption. invalid_argument: another word, or what cannot hold: with "required", a request that
// the native door does not serve would leave unencrypted by http://. Tokens are sealed over https.
inline Outcome<RdmaEncryption> rdma_encryption(const ClientOptions& options, bool https) {
  const auto wrong = [](std::string why) {
    return std::unexpected(ClientError{.code = ErrorCode::invalid_argument, .message = std::move(why)});
  };
  const std::string& word = options.encryption;
  if (word.empty() || word == "auto") return https ? RdmaEncryption::preferred : RdmaEncryption::off;
  if (word == "off") return RdmaEncryption::off;
  if (word == "preferred") return RdmaEncryption::preferred;
  if (word != "required") return wrong("encryption: auto, off, preferred or required");
  if (https && options.insecure) return wrong("encryption required: it needs a server whose certificate is verified");
  if (!https && options.via != Via::native) {
    return wrong("encryption required: it needs an https endpoint, or via native");
  }
  return RdmaEncryption::required;
}

}  // namespace verbena::client
