# The sum of tables of carrier, flights and cancelled.
BEGIN { FS = ","; OFS = "," }
FNR == 1 { next }
{ flights[$1] += $2; cancelled[$1] += $3 }
END {
    print "carrier", "flights", "cancelled"; fflush()
    for (carrier in flights) print carrier, flights[carrier], cancelled[carrier] | "sort"
}
