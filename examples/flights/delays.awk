# Delays of one day's flights. Reads the day's CSV; writes one CSV per airport into the directory `warehouse`, and the
# day's report, one line per carrier, to the file `report`; a flight is late after `late_after` minutes. An ordinary
# script: it knows nothing of Refrain.
BEGIN { FS = ","; OFS = "," }
NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
{
    origin = $column["origin"]; carrier = $column["carrier"]; delay = $column["dep_delay"]
    flights[carrier]++
    if (delay == "" || delay == "NA") { cancelled[carrier]++; next }
    file = warehouse "/" origin ".csv"
    if (!(origin in seen)) { seen[origin] = 1; print "carrier", "flight", "dest", "dep_delay", "arr_delay" > file }
    print carrier, $column["flight"], $column["dest"], delay, $column["arr_delay"] > file
    total[carrier] += delay
    if (delay > late_after + 0) late[carrier]++
}
END {
    for (carrier in flights) {
        for (place = carriers++; place > 0 && sorted[place - 1] > carrier; place--) sorted[place] = sorted[place - 1]
        sorted[place] = carrier
    }
    print "carrier", "flights", "cancelled", "late", "mean_dep_delay" > report
    for (place = 0; place < carriers; place++) {
        carrier = sorted[place]
        flown = flights[carrier] - cancelled[carrier]
        printf "%s,%d,%d,%d,%.2f\n", carrier, flights[carrier], cancelled[carrier], late[carrier], \
            flown ? total[carrier] / flown : 0 > report
    }
}
