//! What does this model compute? Configurations, programs, fusion and the plain reference executor.
