// Federated sign-in: unsigned calls of STS, whose caller has no key here and is authenticated by another party: an
// identity provider, a directory, a certificate authority.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/identity_store.h"
#include "base/secret.h"
#include "iam/surroundings.h"
#include "s3_http/request.h"
#include "sign_in/claims.h"
#include "sign_in/client_authority.h"
#include "sign_in/counts.h"
#include "sign_in/directory.h"
#include "sign_in/provider_keys.h"

namespace verbena::iam {

// The signed-in identity, for the log. Null: none.
struct SignedIn {
  auth::PrincipalPtr principal;
  std::string access_key;
};

// A question to the directory.
struct DirectoryQuestion {
  std::string name;
  Secret password;
};

struct FederatedReply {
  SignedIn who;
  // Set instead of an answer: this provider's keys are needed first, or the directory's answer. The call is then served
  // once more.
  std::optional<sign_in::Issuer> wanted{};
  std::optional<DirectoryQuestion> question{};
  bool certificates = false;  // likewise: the client's certificates
  sign_in::By by = sign_in::By::none;
  // Whether there is no answer yet.
  bool asks() const { return wanted || question || certificates; }
};

// Null: this kind of sign-in is disabled.
struct FederatedTools {
  auth::IdentityStore& store;
  Surroundings around;
  sign_in::ProviderKeys* keys = nullptr;
  const sign_in::DirectorySettings* directory = nullptr;
  sign_in::ClientAuthority* authority = nullptr;
};

using DirectoryAnswer = std::expected<sign_in::Person, sign_in::Refusal>;

struct FederatedRequest {
  const s3::Call& caller;
  std::string_view form;
  bool in_query = false;                    // it was in the URL
  bool last = false;                        // answer with the keys available
  const DirectoryAnswer* person = nullptr;  // the directory's answer
  // The client's certificates: DER, its own first.
  const std::vector<std::string>* certificates = nullptr;
};

// Serves one form; takes a millisecond or two at most.
void answer_federated(const FederatedTools& tools, const FederatedRequest& request, s3::Response& response,
                      FederatedReply& reply);

// A refusal in STS's format.
void write_refusal(const sign_in::Refusal& refusal, std::string_view request_id, s3::Response& response);

}  // namespace verbena::iam
