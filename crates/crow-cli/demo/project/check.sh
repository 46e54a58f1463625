#!/bin/sh
# Fails unless total.sh adds up every order.
expected='total: 30.99'
actual=$(sh total.sh <orders.txt)
if [ "$actual" = "$expected" ]; then
	echo "ok: $actual"
else
	echo "FAILED: expected '$expected' but got '$actual'"
	exit 1
fi
