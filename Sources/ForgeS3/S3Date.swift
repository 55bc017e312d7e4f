#if S3
import Foundation

/// The forms of times in requests and answers.
enum S3Date {
    /// `20130524T000000Z`, the form in signatures.
    static func stamp(_ date: Date) -> String {
        let parts = utc.dateComponents([.year, .month, .day, .hour, .minute, .second], from: date)
        return padded(parts.year, 4) + padded(parts.month, 2) + padded(parts.day, 2) + "T" + padded(parts.hour, 2)
            + padded(parts.minute, 2) + padded(parts.second, 2) + "Z"
    }

    /// Reads `Fri, 24 May 2013 00:00:00 GMT`, as in the headers of HTTP (RFC 9110, 5.6.7).
    static func header(_ text: String?) -> Date? {
        guard let words = text?.split(separator: " "), words.count == 6, words[5] == "GMT",
            let month = months.firstIndex(of: words[2])
        else { return nil }
        return date([words[3], Substring("\(month + 1)"), words[1]], words[4].split(separator: ":"))
    }

    /// Reads `2013-05-24T00:00:00.000Z`, as in listings and credentials, also with a difference from UTC such as
    /// `+01:00` instead of `Z` (RFC 3339, 5.6); fractions of a second are ignored.
    static func listed(_ text: String?) -> Date? {
        guard let halves = text?.split(separator: "T"), halves.count == 2,
            let zone = halves[1].firstIndex(where: { "Z+-".contains($0) }),
            let difference = seconds(halves[1][zone...])
        else { return nil }
        let time = halves[1][..<zone].prefix { $0 != "." }
        return date(halves[0].split(separator: "-"), time.split(separator: ":")).map { $0 - difference }
    }

    /// The difference of a zone from UTC: `Z`, or hours and minutes.
    private static func seconds(_ zone: Substring) -> TimeInterval? {
        guard zone != "Z" else { return 0 }
        let parts = zone.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hours = UInt8(parts[0]), hours < 24,
            let minutes = UInt8(parts[1]), minutes < 60
        else { return nil }
        let seconds = TimeInterval(Int(hours) * 3600 + Int(minutes) * 60)
        return zone.first == "-" ? -seconds : seconds
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .map { Substring($0) }

    private static let utc: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar
    }()

    private static func date(_ days: [Substring], _ times: [Substring]) -> Date? {
        let numbers = (days + times).compactMap { Int($0) }
        guard days.count == 3, times.count == 3, numbers.count == 6, 1970...9999 ~= numbers[0], 1...12 ~= numbers[1],
            1...31 ~= numbers[2], 0...23 ~= numbers[3], 0...59 ~= numbers[4], 0...60 ~= numbers[5]
        else { return nil }
        return utc.date(
            from: DateComponents(
                year: numbers[0], month: numbers[1], day: numbers[2], hour: numbers[3], minute: numbers[4],
                second: numbers[5]))
    }

    private static func padded(_ number: Int?, _ count: Int) -> String {
        let digits = String(number ?? 0)
        return String(repeating: "0", count: max(0, count - digits.count)) + digits
    }
}
#endif
