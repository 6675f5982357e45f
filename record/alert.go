package record

import "strconv"

// Alert is an alert description (RFC 9846, Section 6).
type Alert uint8

// The alerts of RFC 9846, Section 6.
const (
	AlertCloseNotify                  Alert = 0
	AlertUnexpectedMessage            Alert = 10
	AlertBadRecordMAC                 Alert = 20
	AlertRecordOverflow               Alert = 22
	AlertHandshakeFailure             Alert = 40
	AlertBadCertificate               Alert = 42
	AlertUnsupportedCertificate       Alert = 43
	AlertCertificateRevoked           Alert = 44
	AlertCertificateExpired           Alert = 45
	AlertCertificateUnknown           Alert = 46
	AlertIllegalParameter             Alert = 47
	AlertUnknownCA                    Alert = 48
	AlertAccessDenied                 Alert = 49
	AlertDecodeError                  Alert = 50
	AlertDecryptError                 Alert = 51
	AlertProtocolVersion              Alert = 70
	AlertInsufficientSecurity         Alert = 71
	AlertInternalError                Alert = 80
	AlertInappropriateFallback        Alert = 86
	AlertUserCanceled                 Alert = 90
	AlertMissingExtension             Alert = 109
	AlertUnsupportedExtension         Alert = 110
	AlertUnrecognizedName             Alert = 112
	AlertBadCertificateStatusResponse Alert = 113
	AlertUnknownPSKIdentity           Alert = 115
	AlertCertificateRequired          Alert = 116
	AlertGeneralError                 Alert = 117
	AlertNoApplicationProtocol        Alert = 120
)

var alertNames = map[Alert]string{
	AlertCloseNotify:                  "close_notify",
	AlertUnexpectedMessage:            "unexpected_message",
	AlertBadRecordMAC:                 "bad_record_mac",
	AlertRecordOverflow:               "record_overflow",
	AlertHandshakeFailure:             "handshake_failure",
	AlertBadCertificate:               "bad_certificate",
	AlertUnsupportedCertificate:       "unsupported_certificate",
	AlertCertificateRevoked:           "certificate_revoked",
	AlertCertificateExpired:           "certificate_expired",
	AlertCertificateUnknown:           "certificate_unknown",
	AlertIllegalParameter:             "illegal_parameter",
	AlertUnknownCA:                    "unknown_ca",
	AlertAccessDenied:                 "access_denied",
	AlertDecodeError:                  "decode_error",
	AlertDecryptError:                 "decrypt_error",
	AlertProtocolVersion:              "protocol_version",
	AlertInsufficientSecurity:         "insufficient_security",
	AlertInternalError:                "internal_error",
	AlertInappropriateFallback:        "inappropriate_fallback",
	AlertUserCanceled:                 "user_canceled",
	AlertMissingExtension:             "missing_extension",
	AlertUnsupportedExtension:         "unsupported_extension",
	AlertUnrecognizedName:             "unrecognized_name",
	AlertBadCertificateStatusResponse: "bad_certificate_status_response",
	AlertUnknownPSKIdentity:           "unknown_psk_identity",
	AlertCertificateRequired:          "certificate_required",
	AlertGeneralError:                 "general_error",
	AlertNoApplicationProtocol:        "no_application_protocol",
}

// String returns the specification's name for a, or its number if it has none.
func (a Alert) String() string {
	if name, ok := alertNames[a]; ok {
		return name
	}
	return "alert " + strconv.Itoa(int(a))
}

// IsError reports whether a ends the connection with an error. Only
// close_notify and user_canceled do not, whatever level they are sent with.
//
// "All the alerts listed in [Section 6.2] MUST be sent with AlertLevel=fatal
// and MUST be treated as error alerts when received regardless of the
// AlertLevel in the message. Unknown Alert types MUST be treated as error
// alerts." (RFC 9846, Section 6)
func (a Alert) IsError() bool {
	return a != AlertCloseNotify && a != AlertUserCanceled
}

// level returns the AlertLevel that a is sent with.
//
// "close_notify: [...] This alert MUST be sent with AlertLevel=warning."
// "user_canceled: [...] This alert generally has AlertLevel=warning."
// (RFC 9846, Section 6.1)
func (a Alert) level() byte {
	if a.IsError() {
		return 2
	}
	return 1
}

// ParseAlert reads the content of an alert record, whose size is exactly two
// bytes. The level, its first byte, is ignored as RFC 9846, Section 6 allows.
//
// It returns [ErrAlertSize] for content of any other size.
func ParseAlert(content []byte) (Alert, error) {
	if len(content) != alertSize {
		return 0, ErrAlertSize
	}
	return Alert(content[1]), nil
}

// alertSize is the size of an alert message: level and description.
const alertSize = 2
