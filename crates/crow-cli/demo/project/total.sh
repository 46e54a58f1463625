#!/bin/sh
# Prints the total of the orders on standard input.
# A line is: name quantity price-in-cents. Lines that begin with # are comments.
total=0
while read -r name quantity cents; do
	case $name in
		'' | '#'*) continue ;;
	esac
	total=$((total + quantity * cents))
done
printf 'total: %d.%02d\n' $((total / 100)) $((total % 100))
