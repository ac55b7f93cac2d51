// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/key_sources.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "headrace/cache/source/object/command_output.h"
#include "headrace/cache/source/object/endpoint.h"
#include "headrace/cache/source/object/flat_json.h"
#include "headrace/cache/source/object/http_fetch.h"
#include "headrace/cache/source/object/signature.h"
#include "headrace/cache/source/object/uri.h"
#include "headrace/cache/source/object/xml.h"
#include "headrace/io/printable.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using io::Result;
using Found = std::optional<FoundKeys>;

// A metadata service lies on this machine's own wire; where nobody takes a connection within a second, there is none.
constexpr std::chrono::milliseconds kMachineWait{1'000};
constexpr std::chrono::milliseconds kServiceWait{10'000};
// Programs that ask a person (a browser, a token) are given time; they are none that a refresh may wait for.
constexpr std::chrono::milliseconds kCommandWait{60'000};
constexpr unsigned kSourceProfilesMax = 4;  // that name each other; more are a circle

std::optional<std::chrono::system_clock::time_point> expiry_of(std::string_view text) {
  const std::int64_t nanoseconds = parse_iso_time(text);
  if (nanoseconds < 0) return std::nullopt;
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(nanoseconds)));
}

tl::unexpected<io::Error> gave_none(const std::string& source, std::string_view why) {
  return make_error(ErrorCode::kPermission, fmt::format("{}: no access keys: {}", source, why));
}

// The answer of credential_process, of a container's and of a machine's service. Overwrites the text.
Result<FoundKeys> keys_in_json(std::string& text, const std::string& source) {
  FoundKeys found;
  found.source = source;
  const bool good = read_flat_json(text, [&](std::string_view name, std::string& value) {
    if (name == "AccessKeyId") found.keys.id = value;
    if (name == "SecretAccessKey") found.keys.secret = io::Secret::take(value);
    if (name == "SessionToken" || name == "Token") found.keys.session_token = io::Secret::take(value);
    if (name == "Expiration") found.expires = expiry_of(value);
  });
  io::wipe(text);
  if (!good || found.keys.id.empty() || found.keys.secret.empty()) {
    return gave_none(source, "the answer holds none");
  }
  return found;
}

Result<std::string> read_token_file(const std::string& path, const std::string& source) {
  const io::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return io::system_error(errno, source + ": " + io::printable(path));
  std::string text(std::size_t{64} * 1024, '\0');  // a token has 2 KiB
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  while (text.ends_with('\n') || text.ends_with('\r') || text.ends_with(' ')) text.pop_back();
  if (text.empty()) return gave_none(source, io::printable(path) + " is empty");
  return text;
}

class Finder {
 public:
  explicit Finder(const KeySources& sources) : sources_(sources) {}

  [[nodiscard]] Result<Found> find() {
    const std::string name = profile_name(sources_.environment, sources_.profile);
    // A profile that is asked for by an option goes before what happens to stand in the environment.
    if (sources_.profile.empty()) {
      if (Found found = from_environment()) return found;
    }
    HEADRACE_TRY(profile, find_profile(name));
    if (profile) return profile;
    if (!env("AWS_WEB_IDENTITY_TOKEN_FILE").empty() && !env("AWS_ROLE_ARN").empty()) {
      return wrap(from_web_identity(env("AWS_WEB_IDENTITY_TOKEN_FILE"), env("AWS_ROLE_ARN"),
                                    env("AWS_ROLE_SESSION_NAME"), "web identity"));
    }
    if (!env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").empty() || !env("AWS_CONTAINER_CREDENTIALS_FULL_URI").empty()) {
      return wrap(from_container());
    }
    return from_machine();
  }

 private:
  [[nodiscard]] std::string env(const char* name) const { return value_of(sources_.environment, name); }
  static Result<Found> wrap(Result<FoundKeys> found) {
    if (!found) return io::forward_error(std::move(found));
    return Found(std::move(*found));
  }

  [[nodiscard]] Found from_environment() const {
    const std::string id = env("AWS_ACCESS_KEY_ID");
    const char* const secret = sources_.environment("AWS_SECRET_ACCESS_KEY");
    if (id.empty() || secret == nullptr || *secret == '\0') return std::nullopt;
    FoundKeys found{.keys = {.id = id, .secret = io::Secret(secret)}, .source = "environment"};
    if (const char* const token = sources_.environment("AWS_SESSION_TOKEN")) {
      found.keys.session_token = io::Secret(token);
    }
    return found;
  }

  [[nodiscard]] Result<Found> find_profile(const std::string& name) {
    HEADRACE_TRY(profile, Profile::read(sources_.environment, name));
    const bool was_named = !sources_.profile.empty() || !env("AWS_PROFILE").empty();
    if (!profile.exists()) {
      if (!was_named) return Found();
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("profile '{}' is not in ~/.aws/config or ~/.aws/credentials", io::printable(name)));
    }
    return from_profile(profile, name, kSourceProfilesMax);
  }

  // nullopt: the profile holds settings only. `keys_only`: a profile with a role that is its own source.
  [[nodiscard]] Result<Found> from_profile(const Profile& profile, const std::string& name, unsigned depth,
                                           bool keys_only = false) {
    const std::string source = "profile " + io::printable(name);
    const std::string role = profile.value("role_arn");
    if (!role.empty() && !profile.value("web_identity_token_file").empty()) {
      return wrap(from_web_identity(profile.value("web_identity_token_file"), role, profile.value("role_session_name"),
                                    source));
    }
    if (!role.empty() && !keys_only) {
      if (depth == 0) {
        return make_error(ErrorCode::kInvalidArgument, source + ": its source_profile leads to itself");
      }
      return wrap(from_role(profile, name, depth));
    }
    FoundKeys found{.keys = {.id = profile.value("aws_access_key_id"),
                             .secret = profile.secret("aws_secret_access_key"),
                             .session_token = profile.secret("aws_session_token")},
                    .source = source};
    if (!found.keys.id.empty() && !found.keys.secret.empty()) return Found(std::move(found));
    if (const std::string command = profile.value("credential_process"); !command.empty()) {
      Result<std::string> output = command_output(command, kCommandWait, sources_.stop);
      if (!output) return gave_none(source, "credential_process: " + output.error().message());
      return wrap(keys_in_json(*output, source));
    }
    if (!profile.value("sso_session").empty() || !profile.value("sso_start_url").empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        source +
                            ": uses single sign-on; add credential_process = aws configure export-credentials "
                            "--profile " +
                            io::printable(name) + " to a profile of its own, and use that");
    }
    return Found();
  }

  [[nodiscard]] Result<FoundKeys> keys_for_role(const Profile& profile, const std::string& name, unsigned depth) {
    const std::string source = "profile " + io::printable(name);
    Result<Found> found = Found();
    const std::string from = profile.value("source_profile");
    const std::string kind = profile.value("credential_source");
    if (!from.empty()) {
      HEADRACE_TRY(other, Profile::read(sources_.environment, from));
      if (!other.exists()) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("{}: its source_profile '{}' does not exist", source, io::printable(from)));
      }
      found = from_profile(other, from, depth - 1, from == name);
    } else if (kind == "Environment") {
      found = from_environment();
    } else if (kind == "EcsContainer") {
      found = wrap(from_container());
    } else if (kind == "Ec2InstanceMetadata") {
      found = from_machine();
    } else {
      return make_error(ErrorCode::kInvalidArgument, source + ": role_arn needs source_profile or credential_source");
    }
    if (!found) return io::forward_error(std::move(found));
    if (!*found) return gave_none(source, "what it names as the source of its role has none");
    return std::move(**found);
  }

  [[nodiscard]] Result<FoundKeys> from_role(const Profile& profile, const std::string& name, unsigned depth) {
    HEADRACE_TRY(base, keys_for_role(profile, name, depth));
    std::string session = profile.value("role_session_name");
    if (session.empty()) session = "headrace";
    std::vector<std::pair<std::string, std::string>> parameters = {{"Action", "AssumeRole"},
                                                                   {"Version", "2011-06-15"},
                                                                   {"RoleArn", profile.value("role_arn")},
                                                                   {"RoleSessionName", session}};
    if (const std::string id = profile.value("external_id"); !id.empty()) parameters.emplace_back("ExternalId", id);
    if (const std::string time = profile.value("duration_seconds"); !time.empty()) {
      parameters.emplace_back("DurationSeconds", time);
    }
    HttpQuestion question{
        .method = HttpExchange::Method::kPost, .url = token_service(), .body = make_query(std::move(parameters))};
    sign(question, base.keys);
    return ask_token_service(std::move(question), "profile " + io::printable(name));
  }

  [[nodiscard]] Result<FoundKeys> from_web_identity(const std::string& token_file, const std::string& role,
                                                    const std::string& session, const std::string& source) {
    HEADRACE_TRY(token, read_token_file(token_file, source));
    HttpQuestion question{.method = HttpExchange::Method::kPost,
                          .url = token_service(),
                          .headers = {"Content-Type: application/x-www-form-urlencoded"},
                          .body = make_query({{"Action", "AssumeRoleWithWebIdentity"},
                                              {"Version", "2011-06-15"},
                                              {"RoleArn", role},
                                              {"RoleSessionName", session.empty() ? "headrace" : session}})};
    std::string encoded = encode_value(token);
    io::wipe(token);
    question.body.reserve(question.body.size() + encoded.size() + 32);  // a string that grows leaves a copy behind
    question.body.append("&WebIdentityToken=").append(encoded);
    io::wipe(encoded);
    return ask_token_service(std::move(question), source);
  }

  [[nodiscard]] std::string token_service() const {
    const std::string named = env("AWS_ENDPOINT_URL_STS");
    if (!named.empty()) return named + (named.ends_with('/') ? "" : "/");
    const std::string& region = sources_.region;
    if (region.empty() || region == "auto") return "https://sts.amazonaws.com/";
    return fmt::format("https://sts.{}.amazonaws.com{}/", region, region.starts_with("cn-") ? ".cn" : "");
  }

  void sign(HttpQuestion& question, const AccessKeys& keys) const {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const std::string date = amz_date(now);
    const std::string host = host_of(question.url);
    const std::string path = question.url.substr(question.url.find('/', question.url.find("//") + 2));
    const std::string hash = sha256_hex(question.body);
    const std::string type = "application/x-www-form-urlencoded";
    RequestToSign request{.method = "POST",
                          .path = path,
                          .query = "",
                          .headers = {{"content-type", type}, {"host", host}, {"x-amz-date", date}},
                          .body_hash = hash};
    question.headers = {"Content-Type: " + type, "x-amz-date: " + date};
    if (!keys.session_token.empty()) {
      request.headers.emplace_back("x-amz-security-token", keys.session_token.bytes());
      question.headers.push_back("x-amz-security-token: " + std::string(keys.session_token.bytes()));
    }
    const std::string region = sources_.region.empty() ? std::string(kFirstRegion) : sources_.region;
    Signer signer(keys, region, "sts");
    question.headers.push_back("Authorization: " + signer.authorization(request, now));
  }

  [[nodiscard]] Result<FoundKeys> ask_token_service(HttpQuestion question, const std::string& source) const {
    Result<HttpFetched> answer =
        http_fetch(std::move(question), {.wait = kServiceWait, .ca_file = sources_.ca_file, .stop = sources_.stop});
    if (!answer) return gave_none(source, answer.error().message());
    if (answer->status != 200) {
      const StoreError error = parse_error(answer->body);
      return gave_none(source, fmt::format("the token service answers HTTP {} {} {}", answer->status,
                                           io::printable(error.code), io::printable(error.message.substr(0, 200))));
    }
    Result<TokenAnswer> tokens = parse_token_answer(answer->body);
    io::wipe(answer->body);
    if (!tokens) return gave_none(source, tokens.error().context);
    return FoundKeys{.keys = std::move(tokens->keys), .expires = expiry_of(tokens->expiration), .source = source};
  }

  [[nodiscard]] Result<FoundKeys> from_container() const {
    const std::string source = "container";
    std::string url = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (const std::string path = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !path.empty()) {
      url = "http://169.254.170.2" + path;
    } else if (!may_be_asked(url)) {
      return make_error(
          ErrorCode::kInvalidArgument,
          "AWS_CONTAINER_CREDENTIALS_FULL_URI: without https only this machine's own addresses are asked");
    }
    HttpQuestion question{.url = url};
    std::string token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (const std::string file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
      HEADRACE_TRY(read, read_token_file(file, source));
      token = std::move(read);
    }
    if (token.find_first_of("\r\n") != std::string::npos) return gave_none(source, "its token holds a line end");
    if (!token.empty()) question.headers.push_back("Authorization: " + token);
    io::wipe(token);
    Result<HttpFetched> answer =
        http_fetch(std::move(question),
                   {.wait = kServiceWait, .no_proxy = true, .ca_file = sources_.ca_file, .stop = sources_.stop});
    if (!answer) return gave_none(source, answer.error().message());
    if (answer->status != 200) return gave_none(source, fmt::format("its service answers HTTP {}", answer->status));
    return keys_in_json(answer->body, source);
  }

  // Keys travel in the clear by http: only where nobody else is on the wire. The addresses are those that the services
  // of Amazon's containers have.
  static bool may_be_asked(const std::string& url) {
    if (url.starts_with("https://")) return true;
    std::string host = host_of(url);
    if (host.empty()) return false;
    if (host.front() != '[') {
      host = host.substr(0, host.find(':'));
    } else {
      host = host.substr(0, host.find(']') + 1);
    }
    constexpr std::array<std::string_view, 5> kHosts = {"localhost", "[::1]", "169.254.170.2", "169.254.170.23",
                                                        "[fd00:ec2::23]"};
    in_addr address = {};  // a name may begin with 127., too
    const bool is_loopback = ::inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24U == 127;
    return is_loopback || std::find(kHosts.begin(), kHosts.end(), host) != kHosts.end();
  }

  // A machine without a metadata service has no keys of its own; that is no error.
  [[nodiscard]] Result<Found> from_machine() const {
    const std::string disabled = env("AWS_EC2_METADATA_DISABLED");
    if (disabled == "true" || disabled == "True" || disabled == "TRUE") return Found();
    std::string service = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (service.empty()) service = "http://169.254.169.254";
    while (service.ends_with('/')) service.pop_back();
    const HttpFetchOptions options{
        .wait = kServiceWait, .connect_wait = kMachineWait, .no_proxy = true, .stop = sources_.stop};
    Result<HttpFetched> session = http_fetch({.method = HttpExchange::Method::kPut,
                                              .url = service + "/latest/api/token",
                                              .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}},
                                             options);
    if (!session || session->status != 200) return Found();
    const std::string header = "X-aws-ec2-metadata-token: " + session->body;
    if (header.find_first_of("\r\n") != std::string::npos) return Found();
    const std::string roles = service + "/latest/meta-data/iam/security-credentials/";
    Result<HttpFetched> role = http_fetch({.url = roles, .headers = {header}}, options);
    if (!role || role->status != 200 || role->body.empty()) return Found();
    const std::string name = role->body.substr(0, role->body.find_first_of("\r\n"));
    const std::string source = "machine role " + io::printable(name);
    Result<HttpFetched> answer = http_fetch({.url = roles + encode_path(name), .headers = {header}}, options);
    if (!answer) return gave_none(source, answer.error().message());
    if (answer->status != 200) {
      return gave_none(source, fmt::format("the metadata service answers HTTP {}", answer->status));
    }
    return wrap(keys_in_json(answer->body, source));
  }

  const KeySources& sources_;
};

}  // namespace

std::string profile_name(const Environment& environment, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  std::string name = value_of(environment, "AWS_PROFILE");
  return name.empty() ? "default" : name;
}

Result<std::optional<FoundKeys>> find_keys(const KeySources& sources) {
  Result<std::optional<FoundKeys>> found = Finder(sources).find();
  io::wipe_stack();
  return found;
}

}  // namespace headrace::cache
