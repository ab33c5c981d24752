#include "common/control/tls_channel.hpp"

#include <algorithm>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

namespace continuo::control {

namespace {

// Both hash with SHA-256, as an external key names its hash (RFC 8446 section 4.2.11).
constexpr const char* kSuites = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
// TLS_CHACHA20_POLY1305_SHA256; stands for the hash only, the suite is negotiated.
constexpr std::array<uint8_t, 2> kPskSuite = {0x13, 0x03};
constexpr size_t kFeedBytes = 4096;

using SessionPointer = std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)>;

// An external key as OpenSSL wants it: a session with nothing but suite, version and secret.
SSL_SESSION* make_psk_session(SSL* ssl, const Psk& psk) {
    const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kPskSuite.data());
    SessionPointer session(SSL_SESSION_new(), &SSL_SESSION_free);
    if (suite == nullptr || !session ||
        SSL_SESSION_set1_master_key(session.get(), psk.data(), psk.size()) != 1 ||
        SSL_SESSION_set_cipher(session.get(), suite) != 1 ||
        SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
        return nullptr;
    }
    return session.release();
}

SSL_CTX* make_context(const SSL_METHOD* method) {
    SSL_CTX* context = SSL_CTX_new(method);
    if (context == nullptr) {
        return nullptr;
    }
    std::array<int, 1> groups = {NID_X25519};
    SSL_CTX_set_options(context,
                        SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_quiet_shutdown(context, 0);
    const bool good = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(context, kSuites) == 1 &&
                      SSL_CTX_set1_groups(context, groups.data(), groups.size()) == 1 &&
                      SSL_CTX_set_num_tickets(context, 0) == 1 &&
                      SSL_CTX_set_max_early_data(context, 0) == 1;
    if (!good) {
        SSL_CTX_free(context);
        return nullptr;
    }
    return context;
}

}  // namespace

struct TlsChannel::Callbacks {
    // The views that we hand out lie in the channel, which outlives its SSL.
    static int use_psk(SSL* ssl,
                       const EVP_MD* digest,
                       const uint8_t** id,
                       size_t* id_bytes,
                       SSL_SESSION** session) {
        auto* channel = static_cast<TlsChannel*>(SSL_get_app_data(ssl));
        *session = nullptr;
        if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) {
            return 1;
        }
        *session = make_psk_session(ssl, channel->psk_);
        *id = channel->wire_identity_.data();
        *id_bytes = channel->wire_identity_.size();
        return *session != nullptr ? 1 : 0;
    }

    static int
    find_psk(SSL* ssl, const uint8_t* identity, size_t identity_bytes, SSL_SESSION** session) {
        auto* channel = static_cast<TlsChannel*>(SSL_get_app_data(ssl));
        std::optional<Psk> psk =
            channel->source_->find_psk(base::ByteView(identity, identity_bytes));
        if (!psk) {
            psk.emplace();
            if (RAND_bytes(psk->data(), static_cast<int>(psk->size())) != 1) {
                return 0;
            }
        }
        *session = make_psk_session(ssl, *psk);
        OPENSSL_cleanse(psk->data(), psk->size());
        return *session != nullptr ? 1 : 0;
    }

    static void on_info(const SSL* ssl, int where, int value) {
        if (where == SSL_CB_READ_ALERT) {
            auto* channel = static_cast<TlsChannel*>(SSL_get_app_data(ssl));
            channel->peer_alert_ = value & 0xFF;  // level in the octet above
        }
    }
};

void TlsContext::Deleter::operator()(ssl_ctx_st* context) const {
    SSL_CTX_free(context);
}

void TlsChannel::Deleter::operator()(ssl_st* ssl) const {
    SSL_free(ssl);
}

base::Result<TlsContext> TlsContext::client() {
    SSL_CTX* context = make_context(TLS_client_method());
    if (context == nullptr) {
        ERR_clear_error();
        return base::Error{base::Errc::System, "TLS client context"};
    }
    return TlsContext(context);
}

base::Result<TlsContext> TlsContext::server() {
    SSL_CTX* context = make_context(TLS_server_method());
    if (context == nullptr) {
        ERR_clear_error();
        return base::Error{base::Errc::System, "TLS server context"};
    }
    return TlsContext(context);
}

base::Result<std::unique_ptr<TlsChannel>> TlsChannel::make(const TlsContext& context) {
    std::unique_ptr<TlsChannel> channel(new TlsChannel());
    channel->ssl_.reset(SSL_new(context.native()));
    BIO* input = BIO_new(BIO_s_mem());
    BIO* output = BIO_new(BIO_s_mem());
    if (!channel->ssl_ || input == nullptr || output == nullptr) {
        BIO_free(input);
        BIO_free(output);
        ERR_clear_error();
        return base::Error{base::Errc::System, "TLS object"};
    }
    // An empty buffer means "later", not the end of the stream.
    BIO_set_mem_eof_return(input, -1);
    BIO_set_mem_eof_return(output, -1);
    SSL_set_bio(channel->ssl_.get(), input, output);
    SSL_set_app_data(channel->ssl_.get(), channel.get());
    return channel;
}

base::Result<std::unique_ptr<TlsChannel>>
TlsChannel::connect(const TlsContext& context, std::vector<uint8_t> wire_identity, const Psk& psk) {
    std::unique_ptr<TlsChannel> channel = CTN_TRY(make(context));
    channel->wire_identity_ = std::move(wire_identity);
    channel->psk_ = psk;
    SSL_set_psk_use_session_callback(channel->ssl_.get(), &Callbacks::use_psk);
    SSL_set_info_callback(channel->ssl_.get(), &Callbacks::on_info);
    SSL_set_connect_state(channel->ssl_.get());
    CTN_TRY(channel->advance_handshake());
    return channel;
}

base::Result<std::unique_ptr<TlsChannel>> TlsChannel::accept(const TlsContext& context,
                                                             PskSource& source) {
    std::unique_ptr<TlsChannel> channel = CTN_TRY(make(context));
    channel->source_ = &source;
    SSL_set_psk_find_session_callback(channel->ssl_.get(), &Callbacks::find_psk);
    SSL_set_accept_state(channel->ssl_.get());
    return channel;
}

TlsChannel::~TlsChannel() {
    OPENSSL_cleanse(psk_.data(), psk_.size());
}

base::Error TlsChannel::fail(base::Errc code, std::string_view where) {
    failed_ = true;
    ERR_clear_error();
    return base::Error{code, where};
}

base::Result<void> TlsChannel::advance_handshake() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) {
        established_ = true;
        OPENSSL_cleanse(psk_.data(), psk_.size());
        return {};
    }
    if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) {
        return {};
    }
    return fail(base::Errc::Unauthentic, "TLS handshake");
}

base::Result<void> TlsChannel::on_bytes(base::ByteView bytes) {
    if (failed_) {
        return base::Error{base::Errc::InvalidState, "TLS channel has failed"};
    }
    BIO* input = SSL_get_rbio(ssl_.get());
    // In pieces, so that bytes behind the end of the handshake do not count as handshake.
    while (!bytes.empty()) {
        if (BIO_ctrl_pending(input) + bytes.size() > kMaxPendingInputBytes) {
            return fail(base::Errc::LimitReached, "TLS input not taken");
        }
        const size_t step = established_ ? bytes.size() : std::min(bytes.size(), kFeedBytes);
        if (!established_) {
            handshake_bytes_ += step;
            if (handshake_bytes_ > kMaxHandshakeBytes) {
                return fail(base::Errc::LimitReached, "TLS handshake too long");
            }
        }
        size_t written = 0;
        if (BIO_write_ex(input, bytes.data(), step, &written) != 1 || written != step) {
            return fail(base::Errc::System, "TLS input");
        }
        bytes = bytes.subspan(step);
        if (!established_) {
            CTN_TRY(advance_handshake());
        }
    }
    return {};
}

size_t TlsChannel::poll_bytes(base::MutableByteView to) {
    size_t taken = 0;
    if (to.empty() || !has_bytes() ||
        BIO_read_ex(SSL_get_wbio(ssl_.get()), to.data(), to.size(), &taken) != 1) {
        return 0;
    }
    return taken;
}

size_t TlsChannel::pending_bytes() const {
    return BIO_ctrl_pending(SSL_get_wbio(ssl_.get()));
}

base::Result<void> TlsChannel::send(base::ByteView plaintext) {
    if (!established_ || failed_ || shut_down_) {
        return base::Error{base::Errc::InvalidState, "TLS send"};
    }
    if (BIO_ctrl_pending(SSL_get_wbio(ssl_.get())) + plaintext.size() > kMaxPendingOutputBytes) {
        return base::Error{base::Errc::WouldBlock, "TLS output not taken"};
    }
    ERR_clear_error();
    while (!plaintext.empty()) {
        size_t written = 0;
        // A memory BIO takes everything, so only a failure stops this.
        if (SSL_write_ex(ssl_.get(), plaintext.data(), plaintext.size(), &written) != 1) {
            return fail(base::Errc::System, "TLS send");
        }
        plaintext = plaintext.subspan(written);
    }
    return {};
}

base::Result<size_t> TlsChannel::receive(base::MutableByteView to) {
    if (!established_ || failed_ || to.empty()) {
        return size_t{0};
    }
    ERR_clear_error();
    size_t taken = 0;
    if (SSL_read_ex(ssl_.get(), to.data(), to.size(), &taken) == 1) {
        return taken;
    }
    switch (SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_ZERO_RETURN:
        return size_t{0};
    default:
        return fail(base::Errc::Unauthentic, "TLS record");
    }
}

void TlsChannel::shutdown() {
    if (established_ && !failed_ && !shut_down_) {
        shut_down_ = true;
        SSL_shutdown(ssl_.get());
        ERR_clear_error();
    }
}

bool TlsChannel::is_peer_closed() const {
    return (static_cast<unsigned>(SSL_get_shutdown(ssl_.get())) &
            unsigned{SSL_RECEIVED_SHUTDOWN}) != 0;
}

bool TlsChannel::is_key_refused() const {
    return !established_ &&
           (peer_alert_ == SSL_AD_ILLEGAL_PARAMETER || peer_alert_ == SSL_AD_DECRYPT_ERROR ||
            peer_alert_ == SSL_AD_UNKNOWN_PSK_IDENTITY);
}

base::Result<void> TlsChannel::export_keys(std::string_view label,
                                           base::ByteView context,
                                           base::MutableByteView out) const {
    if (!established_ || failed_) {
        return base::Error{base::Errc::InvalidState, "TLS exporter"};
    }
    if (SSL_export_keying_material(ssl_.get(), out.data(), out.size(), label.data(), label.size(),
                                   context.data(), context.size(), 1) != 1) {
        ERR_clear_error();
        return base::Error{base::Errc::System, "TLS exporter"};
    }
    return {};
}

}  // namespace continuo::control
