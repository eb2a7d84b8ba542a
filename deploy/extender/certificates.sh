#!/bin/sh
# The same certificates as cert-manager/ has, made by hand: an authority, the extender's, and kube-scheduler's.
#
#   deploy/extender/certificates.sh DIRECTORY [NAME...]
#
# NAMEs are what the extender is reached by: tonnage-extender.tonnage-system.svc unless given; localhost for the static pod.
set -eu
cd "${1:?expected a directory}"
shift
[ $# -gt 0 ] || set -- tonnage-extender.tonnage-system.svc
names=$(printf 'DNS:%s,' "$@")
umask 077

issue() { # FILE COMMON-NAME EXTENSIONS...
  file=$1 name=$2
  shift 2
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" -keyout "$file.key" -out "$file.csr" 2> /dev/null
  printf '%s\n' "$@" > "$file.ext"
  openssl x509 -req -in "$file.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile "$file.ext" -out "$file.crt" 2> /dev/null
  rm "$file.csr" "$file.ext"
}

[ -e ca.key ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
  -subj /CN=tonnage-extender-ca -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.crt 2> /dev/null
issue tls tonnage-extender "subjectAltName=${names%,}" extendedKeyUsage=serverAuth
issue client system:kube-scheduler extendedKeyUsage=clientAuth
