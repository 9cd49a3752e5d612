# How many flights each carrier had on a day, and how many of them were cancelled.
BEGIN { FS = ","; OFS = "," }
NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
{
    carrier = $column["carrier"]; delay = $column["dep_delay"]
    flights[carrier]++
    if (delay == "" || delay == "NA") cancelled[carrier]++
}
END {
    print "carrier", "flights", "cancelled"; fflush()
    for (carrier in flights) print carrier, flights[carrier], cancelled[carrier] + 0 | "sort"
}
