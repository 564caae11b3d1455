package rdma

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const bodyMax = 1 << 30 // larger ones are left to Base, which need not hold them in memory

// A request's payload: its bytes, without the frames of aws-chunked, and the checksum that it names.
type payload struct {
	data     []byte
	checksum string // "CRC32C:yZRlqg=="; empty when the request has none
}

var errOtherBody = errors.New("a body that is left to Base")

// Reads a request's body. The second value is the request with its body at the beginning again, for sending it by Base.
func readPayload(request *http.Request) (payload, *http.Request, error) {
	size := request.ContentLength
	if size < 0 || size > bodyMax || len(request.TransferEncoding) != 0 {
		return payload{}, request, errOtherBody
	}
	if request.Body == nil || request.Body == http.NoBody {
		made, err := unframed(request.Header, nil)
		return made, request, err
	}
	raw := make([]byte, size)
	n, err := io.ReadFull(request.Body, raw)
	request.Body.Close()
	again := request.Clone(request.Context())
	again.Body = io.NopCloser(bytes.NewReader(raw[:n]))
	if err != nil {
		return payload{}, again, err
	}
	made, err := unframed(request.Header, raw)
	return made, again, err
}

func unframed(header http.Header, raw []byte) (payload, error) {
	made := payload{data: raw}
	for name := range header {
		if sum := strings.TrimPrefix(name, checksumPrefix); sum != name && !notSums[name] {
			if made.checksum != "" {
				return payload{}, errOtherBody
			}
			made.checksum = strings.ToUpper(sum) + ":" + header.Get(name)
		}
	}
	if strings.HasPrefix(header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		size, err := strconv.ParseUint(header.Get("X-Amz-Decoded-Content-Length"), 10, 32)
		if err != nil || size > uint64(len(raw)) {
			return payload{}, errOtherBody
		}
		trailer := header.Get("X-Amz-Trailer")
		data, sum, err := dechunk(raw, int(size), trailer)
		if err != nil {
			return payload{}, err
		}
		made.data = data
		if trailer != "" {
			name := strings.TrimPrefix(http.CanonicalHeaderKey(trailer), checksumPrefix)
			if made.checksum != "" || name == http.CanonicalHeaderKey(trailer) {
				return payload{}, errOtherBody
			}
			made.checksum = strings.ToUpper(name) + ":" + sum
		}
	} else if header.Get("Content-Encoding") != "" {
		return payload{}, errOtherBody
	}
	if sum := header.Get("Content-Md5"); sum != "" {
		digest := md5.Sum(made.data)
		if base64.StdEncoding.EncodeToString(digest[:]) != sum {
			return payload{}, errOtherBody // the server's own error is the right one
		}
	}
	return made, nil
}

// Decodes frames of "size-in-hex[;chunk-signature=...]\r\n bytes \r\n", the last one of size 0, then trailers. The
// signatures were made in this process; the session authenticates the bytes anew.
func dechunk(raw []byte, size int, trailer string) (data []byte, sum string, err error) {
	data = make([]byte, 0, size)
	for {
		line, rest, found := bytes.Cut(raw, []byte("\r\n"))
		if !found {
			return nil, "", errOtherBody
		}
		digits, _, _ := strings.Cut(string(line), ";")
		n, err := strconv.ParseUint(digits, 16, 31)
		if err != nil {
			return nil, "", errOtherBody
		}
		if n == 0 {
			raw = rest
			break
		}
		if uint64(len(rest)) < n+2 || rest[n] != '\r' || rest[n+1] != '\n' || len(data)+int(n) > size {
			return nil, "", errOtherBody
		}
		data, raw = append(data, rest[:n]...), rest[n+2:]
	}
	if len(data) != size {
		return nil, "", errOtherBody
	}
	for _, line := range strings.Split(string(raw), "\n") {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r"), ":")
		if trailer != "" && strings.EqualFold(strings.TrimSpace(name), trailer) {
			sum = strings.TrimSpace(value)
		}
	}
	if trailer != "" && sum == "" {
		return nil, "", errOtherBody
	}
	return data, sum, nil
}
