//! `strftime_now`: today's date in the form that a template asks for, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment by the calendar and the clock.
struct Moment {
    year: i64,
    /// From 0.
    month: usize,
    /// From 1.
    day: i64,
    /// From 0, Sunday.
    weekday: usize,
    /// From 1.
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Moment {
    fn of(time: SystemTime) -> Moment {
        let seconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_secs() as i64,
            Err(before) => -(before.duration().as_secs() as i64),
        };
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Years from 1 March, so that the leap day is a year's last; 146,097 days make 400 years.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let month = (month_from_march + 2) % 12;
        let year = era * 400 + year_of_era + i64::from(month < 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year =
            if month < 2 { day_from_march - 305 } else { day_from_march + 60 + i64::from(leap) };
        Moment {
            year,
            month: month as usize,
            day: day_from_march - (153 * month_from_march + 2) / 5 + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            day_of_year,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

/// The time in C's `strftime` notation; a letter that is unknown stays as it is written.
pub fn strftime(format: &str, time: SystemTime) -> String {
    let moment = Moment::of(time);
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut letter = rest.next();
        let padded = letter != Some('-');
        if !padded {
            letter = rest.next();
        }
        let number =
            |number: i64, width: usize| if padded { format!("{number:0width$}") } else { number.to_string() };
        let hour_of_half = (moment.hour + 11) % 12 + 1;
        text.push_str(&match letter {
            Some('Y') => moment.year.to_string(),
            Some('y') => number(moment.year.rem_euclid(100), 2),
            Some('m') => number(moment.month as i64 + 1, 2),
            Some('d') => number(moment.day, 2),
            Some('e') => format!("{:2}", moment.day),
            Some('j') => number(moment.day_of_year, 3),
            Some('H') => number(moment.hour, 2),
            Some('I') => number(hour_of_half, 2),
            Some('M') => number(moment.minute, 2),
            Some('S') => number(moment.second, 2),
            Some('p') => if moment.hour < 12 { "AM" } else { "PM" }.to_string(),
            Some('B') => MONTHS[moment.month].to_string(),
            Some('b' | 'h') => MONTHS[moment.month][..3].to_string(),
            Some('A') => DAYS[moment.weekday].to_string(),
            Some('a') => DAYS[moment.weekday][..3].to_string(),
            Some('F') => strftime("%Y-%m-%d", time),
            Some('T') => strftime("%H:%M:%S", time),
            Some('Z') => "UTC".to_string(),
            Some('z') => "+0000".to_string(),
            Some('%') => "%".to_string(),
            Some(other) => format!("%{}{other}", if padded { "" } else { "-" }),
            None => "%".to_string(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Dates from `date -u -d @N`.
    #[test]
    fn known_dates() {
        let cases = [
            (0, "1970-01-01 Thursday 001 00:00:00"),
            (951_782_400, "2000-02-29 Tuesday 060 00:00:00"),
            (951_868_799, "2000-02-29 Tuesday 060 23:59:59"),
            (1_735_689_599, "2024-12-31 Tuesday 366 23:59:59"),
            (1_740_787_200, "2025-03-01 Saturday 060 00:00:00"),
            (4_107_542_400, "2100-03-01 Monday 060 00:00:00"),
        ];
        for (seconds, text) in cases {
            assert_eq!(strftime("%Y-%m-%d %A %j %H:%M:%S", UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn notation() {
        let time = UNIX_EPOCH + Duration::from_secs(1_722_470_400 + 13 * 3600 + 65);
        assert_eq!(strftime("%d %b %Y, %-I:%M %p %% %Q %-m %e %", time), "01 Aug 2024, 1:01 PM % %Q 8  1 %");
    }
}
