# Makes the database at the first start of a pod and runs it. Shell built-ins only: the image need not have coreutils.
set -eu

# The first process of a container ignores what it does not trap: it would sit out the whole grace period.
trap 'exit 143' TERM INT

# A start that was interrupted leaves a half-made directory behind: never use it, take the next name.
if [ -f /data/current ]; then
  read -r dir </data/current
else
  n=1
  while [ -e "/data/$n" ]; do n=$((n + 1)); done
  dir=/data/$n
  "$BIN/initdb" -D "$dir" -U "$DB_USER" --pwfile=/etc/postgres/password \
    --locale=C --encoding=UTF8 --auth=scram-sha-256 --no-sync
  printf 'host all all all scram-sha-256\n' >>"$dir/pg_hba.conf"
  # One statement a line; the chart's schema keeps quotes out of the names and the marker.
  printf 'CREATE DATABASE "%s"\n' "$DB_NAME" | "$BIN/postgres" --single -D "$dir" -c exit_on_error=on postgres
  printf "%s\nINSERT INTO instance VALUES ('%s')\n" 'CREATE TABLE instance (marker text NOT NULL)' "$DB_MARKER" |
    "$BIN/postgres" --single -D "$dir" -c exit_on_error=on "$DB_NAME"
  printf '%s\n' "$dir" >/data/current
fi

# SIGTERM, handed on, would wait for every client to leave: SIGINT does not.
"$BIN/postgres" -D "$dir" -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off \
  -c shared_buffers=32MB -c max_connections=50 &
pid=$!
trap 'kill -INT "$pid"' TERM INT
# The first wait ends with the signal, the second with the server.
wait "$pid" || true
wait "$pid"
